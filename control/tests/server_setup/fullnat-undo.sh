#!/bin/sh
# Tidegate: this machine is no longer a real server of the service `fullnat`, mode fullnat.
# Run it as root on the server, after the gateway has stopped sending to it. It may run again.
set -e

# Nothing to do: packets come from a local address of the gateway, and the answers go there by themselves.
# Only a route to those addresses must exist, which a server on their link has.

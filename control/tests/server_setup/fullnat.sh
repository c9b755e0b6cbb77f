#!/bin/sh
# Tidegate: makes this machine a real server of the service `fullnat`, mode fullnat.
# Run it as root on the server, at each boot: nothing here outlives one. It may run again at any time.
set -e

# Nothing to do: packets come from a local address of the gateway, and the answers go there by themselves.
# Only a route to those addresses must exist, which a server on their link has.

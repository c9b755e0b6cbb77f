#!/bin/sh
# Tidegate: this machine is no longer a real server of the service `nat-far`, mode nat.
# Run it as root on the server, after the gateway has stopped sending to it. It may run again.
set -e

# 10.9.0.11 is not on a link of the gateway, so no command here can do it: the routers between
# them must lead whatever this server sends to clients back to the gateway. Where they cannot, FULLNAT
# needs none of this.

#!/bin/sh
# In place of the program of this name in the DRA driver's image, which also waits for the machine's
# driver before the driver's container starts.
until ls /driver-root-parent/usr/bin/nvidia-smi; do sleep 1; done

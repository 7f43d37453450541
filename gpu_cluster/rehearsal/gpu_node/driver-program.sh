#!/bin/sh
# Starts the driver's program of this name for the MPS daemon, which passes neither PATH nor
# LD_LIBRARY_PATH on. `nvidia-smi -c` would change the GPU's compute mode: a rehearsal leaves the
# machine's settings as they are, and MPS works in the default mode too.
case "${0##*/} $* " in "nvidia-smi "*" -c "*) exit 0 ;; esac
export PATH=/usr/local/nvidia/bin:/usr/local/bin:/usr/bin:/bin
export LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64
exec "${0##*/}" "$@"

#!/bin/sh
# frame.sh FRAME COMMAND [ARG...]: what an OpenCue layer runs for each frame; it runs the renderer under the lease of that frame's key. OpenCue sets
# the CUE_ variables. Let the layer's command be: frame.sh #ZFRAME# COMMAND [ARG...]
set -eu
frame=$1
shift
# The host is in the holder, so that people know where to look. A frame that was sent out again waits for a lease whose holder has died.
exec pawl run --key "shots/$CUE_SHOW/$CUE_SHOT/$CUE_LAYER/$frame" --holder "$CUE_USER@$(uname -n)" \
	--label "job=$CUE_JOB" --label "frame=$CUE_FRAME" --label "frame_id=$CUE_FRAME_ID" \
	--ttl 10s --wait 12s --fenced-exit-code 0 -- "$@"

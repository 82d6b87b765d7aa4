#!/usr/bin/env bash
# encode.sh QUALITY: six seconds of a test picture as HLS, in six segments, which ffmpeg uploads itself to the address that `pawl run` gives it.
# QUALITY is x264's: 0 is the best, 51 the worst.
set -euo pipefail

# User lease with the lease_id as the password opens the files of this one generation, as long as it is neither sealed nor fenced.
files="${PAWL_FILES_URL%%://*}://lease:$PAWL_LEASE_ID@${PAWL_FILES_URL#*://}"

# A playlist of type vod is written once, at the end, so no older one can arrive after it.
exec ffmpeg -nostdin -loglevel warning \
	-f lavfi -i testsrc=size=160x120:rate=8:duration=6 \
	-c:v libx264 -preset ultrafast -threads 1 -qp "$1" -g 8 \
	-f hls -hls_time 1 -hls_playlist_type vod -method PUT "${files}out.m3u8"

#!/bin/sh
# Fills a server (PAWL_URL) with a day of a small studio: frames by POV-Ray, thumbnails by libvips, a film by ffmpeg, reports, a worker that
# comes back too late, one that is at work, and a rollback. It works in the current folder; SCENE is still.pov, SCALE the size of the pictures in per cent.
set -eu
render() { # render FILE WIDTH HEIGHT DECLARATION...
	out=$1 width=$(($2 * ${SCALE:-100} / 100)) height=$(($3 * ${SCALE:-100} / 100))
	shift 3
	for declaration in "$@"; do set -- "$@" "Declare=$declaration"; shift; done
	povray -D +I"$SCENE" +O"$out" +W"$width" +H"$height" +A0.2 "$@" >>povray.log 2>&1
}
put() { # put HOLDER KEY FILE [FLAG...]
	holder=$1 key=$2 file=$3
	shift 3
	pawl put "$key" "$file" --holder "$holder" -q "$@"
}

# The first version of a shot. Then the worker of the second one stalls.
render comp.png 640 360 Hue=0.02
put render-01 shots/010/comp comp.png
pawl acquire shots/010/comp --holder render-01 --ttl 1s --json >stalled.json
token=$(jq .token stalled.json)
pawl put shots/010/comp comp.png --token "$token" --lease-file stalled.json -q

# Frames as a set, and a film of them.
mkdir -p frames film
for n in 1 2 3 4 5 6 7 8; do
	render "frames/frame.000$n.png" 320 180 Hue=0.5 Balls=6 "Seed=0.$n"
done
put farm-17 shots/020/frames frames --primary frame.0001.png --expect 'frame.[0001-0008].png'
ffmpeg -loglevel error -y -framerate 4 -i frames/frame.%04d.png -vf loop=3:8,format=yuv420p -g 8 -c:v libx264 \
	-f hls -hls_time 2 -hls_playlist_type vod -hls_segment_filename 'film/%03d.ts' film/index.m3u8
put transcode-3 vod/still-life film --primary index.m3u8

# Thumbnails of pictures with other colours; one is at work just now.
n=1
for look in 'Hue=0.08 Seed=5' 'Hue=0.3 Balls=4' 'Hue=0.55 Balls=7 Seed=3' 'Hue=0.62 Seed=8' 'Hue=0.78 Balls=6 Seed=4' 'Hue=0.93 Balls=3 Seed=6'; do
	render "image-0$n.png" 400 300 $look
	vips thumbnail "image-0$n.png" "image-0$n.webp[Q=82]" 320
	put "thumbs-$((n % 2 + 1))" "thumbs/image-0$n" "image-0$n.webp"
	n=$((n + 1))
done
pawl acquire thumbs/image-05 --holder thumbs-2 --ttl 15m >lease.log

# Another worker takes the shot over.
render comp.png 640 360 Hue=0.02 Balls=6 Seed=2
pawl run --key shots/010/comp --holder render-02 --wait 30s --metadata camera=B --metadata samples=256 -- sh -c 'cp comp.png "$PAWL_OUT"'

# A report that was wrong, and brought back.
printf 'shot,frames,hours\n010,240,31.5\n020,96,12.25\n030,180,20\n' >usage.csv
put nightly reports/usage usage.csv
printf 'shot,frames,hours\n010,240,-1\n020,,\n' >usage.csv
put nightly reports/usage usage.csv
pawl rollback reports/usage --to 1 --reason 'negative hours in the new one' --by tom
printf '{"shots": 3, "frames": 516, "failed": [], "mean_minutes": 7.4}' >summary.json
put nightly reports/summary summary.json
pawl pin reports/summary --reason 'client review until Friday' --by tom
printf 'Shot 010: the reflections were doubled. Rendered again with camera B.\n' >notes.txt
put anna shots/010/notes notes.txt

# The stalled worker wakes up, and tries again as it shouldn't.
for attempt in 1 2 3; do
	if pawl publish shots/010/comp --token "$token" --lease-file stalled.json 2>>late.log; then
		echo "a stale publish went through" >&2
		exit 1
	fi
done

// A ball jumps from left to right; the clock runs from 0 in the first frame to 1 in the last.
#version 3.7;
global_settings { assumed_gamma 1 }
camera { location <0, 1.5, -6> look_at <0, 1, 0> right x * 4 / 3 }
light_source { <-4, 6, -5> rgb 1 }
background { rgb <0.5, 0.7, 0.9> }
plane { y, 0 pigment { checker rgb 0.9, rgb 0.3 } }
sphere {
	<-2 + 4 * clock, 0.5 + abs(sin(2 * pi * clock)), 0>, 0.5
	pigment { rgb <0.9, 0.2, 0.1> }
	finish { phong 0.8 }
}

// A still life on a floor that mirrors. Declare Hue (0 to 1) and Balls for other pictures, as +DHue does on the command line.
#version 3.7;
global_settings { assumed_gamma 1 max_trace_level 4 }
#ifndef (Hue) #declare Hue = 0.04; #end
#ifndef (Balls) #declare Balls = 5; #end
#ifndef (Seed) #declare Seed = 1; #end
#declare Paint = function(h, shift) { min(1, max(0, abs(mod(h * 6 + shift, 6) - 3) - 1)) }
#declare Rnd = seed(Seed);
camera { location <0, 1.7, -5.2> look_at <0, 0.6, 0> angle 46 right x * image_width / image_height }
light_source { <3, 6, -5> rgb 0.9 area_light <1.5, 0, 0>, <0, 1.5, 0>, 4, 4 adaptive 1 jitter }
light_source { <-6, 4, -2> rgb <0.12, 0.16, 0.24> }
sky_sphere { pigment { gradient y color_map { [0 rgb <0.93, 0.86, 0.78>] [0.35 rgb <0.45, 0.6, 0.8>] [1 rgb <0.12, 0.2, 0.4>] } } }
fog { distance 40 rgb <0.93, 0.86, 0.78> }
plane { y, 0 pigment { checker rgb <0.82, 0.8, 0.76>, rgb <0.2, 0.21, 0.24> scale 0.6 rotate y * 30 } finish { reflection 0.12 diffuse 0.75 } }
#for (I, 0, Balls - 1)
	#declare Angle = 2 * pi * I / Balls + Seed;
	#declare Size = 0.32 + 0.25 * rand(Rnd);
	#declare H = mod(Hue + 0.13 * rand(Rnd), 1);
	sphere { <1.35 * cos(Angle), Size, 1.1 * sin(Angle)>, Size
		pigment { rgb <Paint(H, 0), Paint(H, 4), Paint(H, 2)> * 0.85 + 0.05 }
		finish { specular 0.5 roughness 0.02 reflection { 0.04, 0.3 fresnel on } diffuse 0.8 } interior { ior 1.5 } }
#end
sphere { <0, 0.62, 0>, 0.62 pigment { rgb 0.9 } finish { reflection 0.75 diffuse 0.12 specular 0.8 roughness 0.005 } }

// A ball that rolls over a chequered floor, once to and fro in a sequence.
#version 3.7;
global_settings { assumed_gamma 1 }
camera { location <0, 1, -4> look_at <0, 0.5, 0> }
light_source { <2, 4, -3> rgb 1 }
plane { y, 0 pigment { checker rgb 1 rgb 0.2 } }
sphere { <sin(2*pi*clock), 0.5, 0>, 0.5 pigment { rgb <1, 0.4, 0.1> } }

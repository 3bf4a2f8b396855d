// A row of glass spheres comes nearer: later frames take longer.
#version 3.7;
global_settings { assumed_gamma 1.0 max_trace_level 12 }
camera { location <0, 2, -6> look_at <0, 0.6, 0> }
light_source { <5, 8, -6> color rgb 1 area_light <1, 0, 0>, <0, 1, 0>, 4, 4 adaptive 1 }
plane { y, 0 pigment { checker color rgb 0.9, color rgb <0.2, 0.3, 0.5> } finish { reflection 0.2 } }
#declare Place = 0;
#while (Place < 9)
  sphere {
    <mod(Place, 3) - 1, 0.5, 8 - 7 * clock + 1.2 * int(Place / 3)>, 0.45
    pigment { color rgbt <0.8, 0.9, 1, 0.85> }
    finish { specular 0.6 reflection 0.15 }
    interior { ior 1.5 }
  }
  #declare Place = Place + 1;
#end

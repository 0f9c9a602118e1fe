// The error function and the hyperbolic tangent in f32 as polynomials, for compilers that call a function for each
// element where the language has one. They want exp_f32.
#if SCALAR_MATH
FN f32 tanh_f32(f32 x) {
  const f32 a = NATIVE(fabs)(x), z = a * a;
  f32 p = NATIVE(fma)(z, 0.002298941025f, -0.008350007554f);
  p = NATIVE(fma)(z, p, 0.02177099553f);
  p = NATIVE(fma)(z, p, -0.05395955024f);
  p = NATIVE(fma)(z, p, 0.1333330498f);
  p = NATIVE(fma)(z, p, -0.3333333318f);
  const f32 small = NATIVE(fma)(a * z, p, a);
  const f32 large = 1.0f - 2.0f / (exp_f32(a + a) + 1.0f);
  return NATIVE(copysign)(a < 0.625f ? small : large, x);
}
FN f32 erf_f32(f32 x) {
  const f32 a = NATIVE(fabs)(x), z = a * a;
  f32 p = NATIVE(fma)(z, 7.889126494e-5f, -0.0008020843364f);
  p = NATIVE(fma)(z, p, 0.005189535572f);
  p = NATIVE(fma)(z, p, -0.02685444471f);
  p = NATIVE(fma)(z, p, 0.1128360018f);
  p = NATIVE(fma)(z, p, -0.3761262714f);
  p = NATIVE(fma)(z, p, 0.128379166f);
  const f32 small = NATIVE(fma)(a, p, a);
  const f32 bounded = a > 3.95f ? 3.95f : a;
  f32 q = NATIVE(fma)(bounded, -0.0001855730187f, 0.002939597643f);
  q = NATIVE(fma)(bounded, q, -0.02180528005f);
  q = NATIVE(fma)(bounded, q, 0.1030372898f);
  q = NATIVE(fma)(bounded, q, 0.6382257669f);
  q = NATIVE(fma)(bounded, q, 1.127039983f);
  q = NATIVE(fma)(bounded, q, 0.0003537323417f);
  return NATIVE(copysign)(a < 1.0f ? small : 1.0f - exp_f32(-q), x);
}
// Accurate to what the sum with 1 keeps. It is twice the normal distribution's cumulative function, whose tail is 2 to
// the power of a polynomial (csrc/host_kernels/isa/pointwise/activation.cpp).
FN f32 one_plus_erf_f32(f32 x) {
  const f32 end = 3.95979798f, a = NATIVE(fabs)(x);
  const f32 bounded = a > end ? end : a;
  f32 power = NATIVE(fma)(bounded, 9.58286474e-05f, -0.0004312279227f);
  power = NATIVE(fma)(bounded, power, -0.002382874639f);
  power = NATIVE(fma)(bounded, power, 0.02955709432f);
  power = NATIVE(fma)(bounded, power, -0.1490329729f);
  power = NATIVE(fma)(bounded, power, -0.9183062958f);
  power = NATIVE(fma)(bounded, power, -1.627916707f);
  power = NATIVE(fma)(bounded, power, 1.036e-07f);
  const f32 shifted = power + 12583039.0f;  // with the bias of exponents in its last bits
  const f32 fraction = power - (shifted - 12583039.0f);
  f32 p = NATIVE(fma)(fraction, 0.001327647116f, 0.009675541328f);
  p = NATIVE(fma)(fraction, p, 0.05550713276f);
  p = NATIVE(fma)(fraction, p, 0.2402211972f);
  p = NATIVE(fma)(fraction, p, 0.6931469671f);
  p = NATIVE(fma)(fraction, p, 1.000000072f);
  const f32 tail = a > end ? 0.0f : p * f32_of_bits(bits_of_f32(shifted) << 23);
  return x < 0.0f ? tail : 2.0f - tail;
}
#endif

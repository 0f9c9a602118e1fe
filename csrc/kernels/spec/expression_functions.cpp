// The functions of the expression language, in each of their domains.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/spec/expression.h"

namespace mydev {

namespace {

using Complex = std::complex<double>;

// Integers wrap round.
int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrap_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    return base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
  }
  int64_t result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = wrap_mul(result, base);
    base = wrap_mul(base, base);
  }
  return result;
}

// Quotients of integers; nothing is said of a divisor of 0.
int64_t quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrap_sub(0, a) : a / b;
}
int64_t rest(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}
bool rounds_down(int64_t a, int64_t b) {
  const int64_t r = rest(a, b);
  return r != 0 && (r < 0) != (b < 0);
}
double floored_rest(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double floored_quotient(double a, double b) {
  return b == 0 ? a / b : std::round((a - floored_rest(a, b)) / b);
}

double larger(double a, double b) {
  return a >= b || std::isnan(a) ? a : b;
}
double smaller(double a, double b) {
  return a <= b || std::isnan(a) ? a : b;
}

// --- over all elements -----------------------------------------------------------------------------------------------

bool is_nan(double x) {
  return std::isnan(x);
}
bool is_nan(int64_t /*x*/) {
  return false;
}
double add(double a, double b) {
  return a + b;
}
int64_t add(int64_t a, int64_t b) {
  return wrap_add(a, b);
}
double multiply(double a, double b) {
  return a * b;
}
int64_t multiply(int64_t a, int64_t b) {
  return wrap_mul(a, b);
}

template <typename Value, typename Combine>
Value fold(std::span<const Value> values, Value start, const Combine& combine) {
  for (const Value value : values) start = combine(start, value);
  return start;
}
template <typename Value>
Value sum_of(std::span<const Value> x) {
  return fold(x, Value{0}, [](Value a, Value b) { return add(a, b); });
}
template <typename Value>
Value product_of(std::span<const Value> x) {
  return fold(x, Value{1}, [](Value a, Value b) { return multiply(a, b); });
}
double mean_of(std::span<const double> x) {
  return sum_of(x) / static_cast<double>(x.size());
}
template <typename Value>
constexpr Value lowest() {
  if constexpr (std::numeric_limits<Value>::has_infinity) return -std::numeric_limits<Value>::infinity();
  return std::numeric_limits<Value>::lowest();
}
template <typename Value>
constexpr Value highest() {
  if constexpr (std::numeric_limits<Value>::has_infinity) return std::numeric_limits<Value>::infinity();
  return std::numeric_limits<Value>::max();
}
template <typename Value>
Value largest_of(std::span<const Value> x) {
  return fold(x, lowest<Value>(), [](Value a, Value b) { return a >= b || is_nan(a) ? a : b; });
}
template <typename Value>
Value smallest_of(std::span<const Value> x) {
  return fold(x, highest<Value>(), [](Value a, Value b) { return a <= b || is_nan(a) ? a : b; });
}
template <typename Value>
Value any_of(std::span<const Value> x) {
  return std::any_of(x.begin(), x.end(), [](Value a) { return a != 0; }) ? 1 : 0;
}
template <typename Value>
Value all_of(std::span<const Value> x) {
  return std::all_of(x.begin(), x.end(), [](Value a) { return a != 0; }) ? 1 : 0;
}
// The index of the first of the best elements; a NaN is better than any number.
template <typename Value, typename Better>
Value position_of(std::span<const Value> x, const Better& better) {
  size_t best = 0;
  for (size_t i = 1; i < x.size(); ++i) {
    if (better(x[i], x[best]) || (is_nan(x[i]) && !is_nan(x[best]))) best = i;
  }
  return x.empty() ? Value{-1} : static_cast<Value>(best);
}
template <typename Value>
Value position_of_largest(std::span<const Value> x) {
  return position_of(x, [](Value a, Value b) { return a > b; });
}
template <typename Value>
Value position_of_smallest(std::span<const Value> x) {
  return position_of(x, [](Value a, Value b) { return a < b; });
}
template <typename Value>
Value count_of(std::span<const Value> x) {
  return static_cast<Value>(x.size());
}

// --- the table -------------------------------------------------------------------------------------------------------

// clang-format off
#define REAL(expression) [](const double* x) -> double { return expression; }
#define INTEGER(expression) [](const int64_t* x) -> int64_t { return expression; }
#define COMPLEX(expression) [](const Complex* x) -> Complex { return expression; }
#define ANY(expression) REAL(expression), INTEGER(expression)
#define ALL(expression) REAL(expression), INTEGER(expression), COMPLEX(expression)
#define FUNCTION(name) {#name, 1, REAL(std::name(x[0])), nullptr, nullptr}

constexpr ExpressionFunction kFunctions[] = {
    {"neg", 1, REAL(-x[0]), INTEGER(wrap_sub(0, x[0])), COMPLEX(-x[0])},
    {"+", 2, REAL(x[0] + x[1]), INTEGER(wrap_add(x[0], x[1])), COMPLEX(x[0] + x[1])},
    {"-", 2, REAL(x[0] - x[1]), INTEGER(wrap_sub(x[0], x[1])), COMPLEX(x[0] - x[1])},
    {"*", 2, REAL(x[0] * x[1]), INTEGER(wrap_mul(x[0], x[1])), COMPLEX(x[0] * x[1])},
    {"/", 2, REAL(x[0] / x[1]), nullptr, COMPLEX(x[0] / x[1])},
    {"==", 2, ALL(x[0] == x[1] ? 1 : 0)},
    {"!=", 2, ALL(x[0] != x[1] ? 1 : 0)},
    {"<", 2, ANY(x[0] < x[1] ? 1 : 0), nullptr},
    {"<=", 2, ANY(x[0] <= x[1] ? 1 : 0), nullptr},
    {">", 2, ANY(x[0] > x[1] ? 1 : 0), nullptr},
    {">=", 2, ANY(x[0] >= x[1] ? 1 : 0), nullptr},
    {"and", 2, ANY(x[0] != 0 && x[1] != 0 ? 1 : 0), nullptr},
    {"or", 2, ANY(x[0] != 0 || x[1] != 0 ? 1 : 0), nullptr},
    {"not", 1, ANY(x[0] == 0 ? 1 : 0), nullptr},
    {"where", 3, REAL(x[0] != 0 ? x[1] : x[2]), INTEGER(x[0] != 0 ? x[1] : x[2]),
     COMPLEX(x[0] != Complex() ? x[1] : x[2])},
    FUNCTION(exp), FUNCTION(exp2), FUNCTION(expm1), FUNCTION(log), FUNCTION(log2), FUNCTION(log10), FUNCTION(log1p),
    FUNCTION(sin), FUNCTION(cos), FUNCTION(tan), FUNCTION(asin), FUNCTION(acos), FUNCTION(atan),
    FUNCTION(sinh), FUNCTION(cosh), FUNCTION(tanh), FUNCTION(asinh), FUNCTION(acosh), FUNCTION(atanh),
    FUNCTION(erf), FUNCTION(erfc), FUNCTION(sqrt), FUNCTION(cbrt),
    {"floor", 1, REAL(std::floor(x[0])), INTEGER(x[0]), nullptr},
    {"ceil", 1, REAL(std::ceil(x[0])), INTEGER(x[0]), nullptr},
    {"round", 1, REAL(std::nearbyint(x[0])), INTEGER(x[0]), nullptr},
    {"trunc", 1, REAL(std::trunc(x[0])), INTEGER(x[0]), nullptr},
    {"abs", 1, REAL(std::fabs(x[0])), INTEGER(x[0] < 0 ? wrap_sub(0, x[0]) : x[0]), nullptr},
    {"sign", 1, ANY((x[0] > 0 ? 1 : 0) - (x[0] < 0 ? 1 : 0)), nullptr},
    {"isnan", 1, REAL(std::isnan(x[0]) ? 1 : 0), INTEGER(is_nan(x[0]) ? 1 : 0), nullptr},
    {"isinf", 1, REAL(std::isinf(x[0]) ? 1 : 0), INTEGER(is_nan(x[0]) ? 1 : 0), nullptr},
    {"pow", 2, REAL(std::pow(x[0], x[1])), INTEGER(power(x[0], x[1])), nullptr},
    {"atan2", 2, REAL(std::atan2(x[0], x[1])), nullptr, nullptr},
    {"max", 2, REAL(larger(x[0], x[1])), INTEGER(std::max(x[0], x[1])), nullptr},
    {"min", 2, REAL(smaller(x[0], x[1])), INTEGER(std::min(x[0], x[1])), nullptr},
    // Quotient and remainder, rounded toward zero and down.
    {"trunc_div", 2, REAL(std::trunc(x[0] / x[1])), INTEGER(quotient(x[0], x[1])), nullptr},
    {"fmod", 2, REAL(std::fmod(x[0], x[1])), INTEGER(rest(x[0], x[1])), nullptr},
    {"floor_div", 2, REAL(floored_quotient(x[0], x[1])),
     INTEGER(quotient(x[0], x[1]) - (rounds_down(x[0], x[1]) ? 1 : 0)), nullptr},
    {"remainder", 2, REAL(floored_rest(x[0], x[1])),
     INTEGER(rest(x[0], x[1]) + (rounds_down(x[0], x[1]) ? x[1] : 0)), nullptr},
    {"bit_and", 2, nullptr, INTEGER(x[0] & x[1]), nullptr},
    {"bit_or", 2, nullptr, INTEGER(x[0] | x[1]), nullptr},
    {"bit_xor", 2, nullptr, INTEGER(x[0] ^ x[1]), nullptr},
    {"bit_not", 1, nullptr, INTEGER(~x[0]), nullptr},
    {"shift_left", 2, nullptr,
     INTEGER(x[1] < 0 || x[1] > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(x[0]) << x[1])), nullptr},
    {"shift_right", 2, nullptr, INTEGER(x[0] >> (x[1] < 0 || x[1] > 63 ? 63 : x[1])), nullptr},
    {"sum", 1, nullptr, nullptr, nullptr, sum_of<double>, sum_of<int64_t>},
    {"prod", 1, nullptr, nullptr, nullptr, product_of<double>, product_of<int64_t>},
    {"mean", 1, nullptr, nullptr, nullptr, mean_of},
    {"amax", 1, nullptr, nullptr, nullptr, largest_of<double>, largest_of<int64_t>},
    {"amin", 1, nullptr, nullptr, nullptr, smallest_of<double>, smallest_of<int64_t>},
    {"any", 1, nullptr, nullptr, nullptr, any_of<double>, any_of<int64_t>},
    {"all", 1, nullptr, nullptr, nullptr, all_of<double>, all_of<int64_t>},
    {"argmax", 1, nullptr, nullptr, nullptr, position_of_largest<double>, position_of_largest<int64_t>},
    {"argmin", 1, nullptr, nullptr, nullptr, position_of_smallest<double>, position_of_smallest<int64_t>},
    {"count", 1, nullptr, nullptr, nullptr, count_of<double>, count_of<int64_t>},
};
#undef FUNCTION
#undef ALL
#undef ANY
#undef COMPLEX
#undef INTEGER
#undef REAL
// clang-format on

}  // namespace

std::span<const ExpressionFunction> expression_functions() noexcept {
  return kFunctions;
}

}  // namespace mydev

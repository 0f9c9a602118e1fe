// One kernel of each of XLA's legacy kinds, as they are found in the wild: axpy (API version 1), sqrt (version 2) and a
// polynomial (version 3), each for the host and for the device. They see pointers only, so callers say sizes: the host
// forms read them from an operand, the device forms from the opaque bytes, since their operands may lie where the host
// cannot read.
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "records.h"

// Defined by whoever runs the kernel: XLA, or mydev where there is no XLA.
struct XlaCustomCallStatus;
extern "C" void XlaCustomCallStatusSetFailure(XlaCustomCallStatus* status, const char* message, size_t message_len);

namespace {

// [docs: original-host]
// API_VERSION_ORIGINAL, host. Operands: count s64[], scale f32[], x f32[n], y f32[n]. One result, so `out` is its
// memory. There is no way to report an error.
void original_axpy_host_form(void* out, const void** in) {
  const int64_t count = *static_cast<const int64_t*>(in[0]);
  const float scale = *static_cast<const float*>(in[1]);
  const auto *x = static_cast<const float*>(in[2]), *y = static_cast<const float*>(in[3]);
  auto* to = static_cast<float*>(out);
  for (int64_t i = 0; i < count; ++i) to[i] = scale * x[i] + y[i];
}
// [docs: end]

// [docs: original-device]
// API_VERSION_ORIGINAL, device. The operands' buffers, then the results'. The opaque bytes are the caller's struct.
struct AxpyOptions {
  int64_t count;
  float scale;
};

void original_axpy_device_form(void* /*stream*/, void** buffers, const char* opaque, size_t opaque_len) {
  AxpyOptions options;
  if (opaque_len < sizeof(options)) return;  // no way to report an error
  std::memcpy(&options, opaque, sizeof(options));
  const auto *x = static_cast<const float*>(buffers[0]), *y = static_cast<const float*>(buffers[1]);
  auto* to = static_cast<float*>(buffers[2]);
  for (int64_t i = 0; i < options.count; ++i) to[i] = options.scale * x[i] + y[i];
}
// [docs: end]

void fail(XlaCustomCallStatus* status, std::string_view message) {
  XlaCustomCallStatusSetFailure(status, message.data(), message.size());  // copies
}

void square_roots(float* to, const float* x, int64_t count, XlaCustomCallStatus* status) {
  for (int64_t i = 0; i < count; ++i) {
    if (x[i] < 0) return fail(status, "square root of a negative number");
    to[i] = std::sqrt(x[i]);
  }
}

// [docs: status-host]
// API_VERSION_STATUS_RETURNING, host. Operands: count s64[], x f32[n].
void status_sqrt_host_form(void* out, const void** in, XlaCustomCallStatus* status) {
  square_roots(static_cast<float*>(out), static_cast<const float*>(in[1]), *static_cast<const int64_t*>(in[0]), status);
}
// [docs: end]

// [docs: status-device]
// API_VERSION_STATUS_RETURNING, device. The opaque bytes are the count, s64.
void status_sqrt_device_form(void* /*stream*/, void** buffers, const char* opaque, size_t opaque_len,
                             XlaCustomCallStatus* status) {
  int64_t count;
  if (opaque_len != sizeof(count)) return fail(status, "opaque must be a count of 8 bytes");
  std::memcpy(&count, opaque, sizeof(count));
  square_roots(static_cast<float*>(buffers[1]), static_cast<const float*>(buffers[0]), count, status);
}
// [docs: end]

// value[i] = c0 + c1 x[i] + c2 x[i]^2 + ..., slope[i] = its derivative. The coefficients are text: "1 0 0.5".
void polynomial(float* value, float* slope, const float* x, int64_t count, std::string_view text,
                XlaCustomCallStatus* status) {
  float coefficients[16];
  int degree = -1;
  const char *at = text.data(), *end = at + text.size();  // not NUL-terminated
  while (at != end) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    if (degree == 15) return fail(status, "a polynomial has at most 16 coefficients");
    const auto [next, error] = std::from_chars(at, end, coefficients[++degree]);
    if (error != std::errc()) return fail(status, "coefficients are numbers with spaces between, such as '1 0 0.5'");
    at = next;
  }
  for (int64_t i = 0; i < count; ++i) {
    float v = 0, s = 0;
    for (int k = degree; k >= 0; --k) {
      s = s * x[i] + v;
      v = v * x[i] + coefficients[k];
    }
    value[i] = v;
    slope[i] = s;
  }
}

// [docs: unified-host]
// API_VERSION_STATUS_RETURNING_UNIFIED, host. Operands: count s64[], x f32[n]. Two results are a tuple, so `out` is an
// array of pointers to them.
void unified_polynomial_host_form(void* out, const void** in, const char* opaque, size_t opaque_len,
                                  XlaCustomCallStatus* status) {
  auto** results = static_cast<void**>(out);
  polynomial(static_cast<float*>(results[0]), static_cast<float*>(results[1]), static_cast<const float*>(in[1]),
             *static_cast<const int64_t*>(in[0]), {opaque, opaque_len}, status);
}
// [docs: end]

// [docs: unified-device]
// API_VERSION_STATUS_RETURNING_UNIFIED, device: as STATUS_RETURNING. The opaque bytes are the count, s64, then the
// text.
void unified_polynomial_device_form(void* /*stream*/, void** buffers, const char* opaque, size_t opaque_len,
                                    XlaCustomCallStatus* status) {
  int64_t count;
  if (opaque_len < sizeof(count)) return fail(status, "opaque must begin with a count of 8 bytes");
  std::memcpy(&count, opaque, sizeof(count));
  polynomial(static_cast<float*>(buffers[1]), static_cast<float*>(buffers[2]), static_cast<const float*>(buffers[0]),
             count, {opaque + sizeof(count), opaque_len - sizeof(count)}, status);
}
// [docs: end]

// --- records ---------------------------------------------------------------------------------------------------------

constexpr uint64_t kF32 = MYDEV_DTYPE_BIT(MYDEV_F32), kS64 = MYDEV_DTYPE_BIT(MYDEV_S64);
constexpr size_t kOperand = sizeof(mydev_operand);

// [docs: legacy-signature]
// struct_size, name, dtypes, like, alias, rank_min, rank_max
constexpr mydev_operand kCount = {kOperand, "count", kS64, -1, -1, 0, 0};
constexpr mydev_operand kScale = {kOperand, "scale", kF32, -1, -1, 0, 0};
constexpr mydev_operand kX = {kOperand, "x", kF32, -1, -1, 1, 1};
constexpr mydev_operand kY = {kOperand, "y", kF32, -1, -1, 1, 1};
constexpr mydev_operand kOut = {kOperand, "out", kF32, -1, -1, 1, 1};
constexpr mydev_operand kValue = {kOperand, "value", kF32, -1, -1, 1, 1};
constexpr mydev_operand kSlope = {kOperand, "slope", kF32, -1, -1, 1, 1};

constexpr const mydev_operand* kAxpyOperands[] = {&kCount, &kScale, &kX, &kY};
constexpr const mydev_operand* kOneResult[] = {&kOut};
constexpr mydev_signature kAxpySignature = {.struct_size = sizeof(mydev_signature),
                                            .operands = kAxpyOperands,
                                            .num_operands = 4,
                                            .num_results = 1,
                                            .results = kOneResult,
                                            .shapes = "(),(),(n),(n)->(n)"};
// [docs: end]

constexpr const mydev_operand* kCountAndX[] = {&kCount, &kX};
constexpr mydev_signature kSqrtSignature = {.struct_size = sizeof(mydev_signature),
                                            .operands = kCountAndX,
                                            .num_operands = 2,
                                            .num_results = 1,
                                            .results = kOneResult,
                                            .shapes = "(),(n)->(n)"};

// [docs: opaque-attribute]
// The string attribute "opaque" is what the kernel is given as its opaque bytes.
constexpr mydev_attribute_spec kOpaque = {.struct_size = sizeof(mydev_attribute_spec),
                                          .value = {.name = "opaque", .kind = MYDEV_ATTRIBUTE_STRING},
                                          .flags = MYDEV_ATTRIBUTE_REQUIRED,
                                          .doc = "coefficients, constant first: '1 0 0.5'"};
constexpr const mydev_attribute_spec* kAttributes[] = {&kOpaque};
constexpr const mydev_operand* kTwoResults[] = {&kValue, &kSlope};
constexpr mydev_signature kPolynomialSignature = {.struct_size = sizeof(mydev_signature),
                                                  .operands = kCountAndX,
                                                  .num_operands = 2,
                                                  .num_results = 2,
                                                  .results = kTwoResults,
                                                  .attributes = kAttributes,
                                                  .num_attributes = 1,
                                                  .shapes = "(),(n)->(n),(n)"};
// [docs: end]

template <typename Function>
mydev_kernel record(const char* name, mydev_kernel_kind kind, Function* function, const mydev_signature* signature,
                    const char* doc) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(mydev_kernel);
  kernel.name = name;
  kernel.kind = kind;
  kernel.execute = reinterpret_cast<mydev_function>(function);
  kernel.signature = signature;
  kernel.doc = doc;
  return kernel;
}

// Without a signature a kernel is no operator; it is called by name, with the shapes of its results.
template <typename Function>
mydev_kernel device_record(const char* name, mydev_kernel_kind kind, Function* function, const char* doc) {
  mydev_kernel kernel = record(name, kind, function, nullptr, doc);
  kernel.platform = "mydev";
  return kernel;
}

}  // namespace

// [docs: legacy-records]
extern "C" {
const mydev_kernel original_axpy = record("example.original_axpy", MYDEV_KIND_ORIGINAL_HOST, original_axpy_host_form,
                                          &kAxpySignature, "scale * x + y");
const mydev_kernel original_axpy_device =
    device_record("example.original_axpy_device", MYDEV_KIND_ORIGINAL_DEVICE, original_axpy_device_form,
                  "scale * x + y; opaque: count s64, scale f32");
// [docs: end]
const mydev_kernel status_sqrt = record("example.status_sqrt", MYDEV_KIND_STATUS_HOST, status_sqrt_host_form,
                                        &kSqrtSignature, "square roots; negative numbers are an error");
const mydev_kernel status_sqrt_device = device_record("example.status_sqrt_device", MYDEV_KIND_STATUS_DEVICE,
                                                      status_sqrt_device_form, "square roots; opaque: count s64");
const mydev_kernel unified_polynomial =
    record("example.unified_polynomial", MYDEV_KIND_UNIFIED_HOST, unified_polynomial_host_form, &kPolynomialSignature,
           "value and slope of a polynomial");
const mydev_kernel unified_polynomial_device =
    device_record("example.unified_polynomial_device", MYDEV_KIND_UNIFIED_DEVICE, unified_polynomial_device_form,
                  "value and slope of a polynomial; opaque: count s64, then coefficients as text");
}

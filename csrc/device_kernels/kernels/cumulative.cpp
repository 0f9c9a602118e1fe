// Kernels that go along one dimension and keep what they have so far: a thread goes along each line.
//
// On GPUs, where lines are too few to keep all threads at work, a thread goes along a part of a line, and leaves what
// the part has in scratch. These totals are made running totals in the same way, and each part then begins with what
// the parts before it have. Parts are short: neighbouring threads read neighbouring memory.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/kernels/data_kernels.h"
#include "device_kernels/kernels/product_tiles.h"
#include "device_kernels/text/element_loop.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

constexpr int64_t kPart = 16;  // elements of a part: 64 bytes of f32

struct Elements {
  mydev_dtype dtype;
  Call::Memory memory;
  std::vector<int64_t> strides;
};

std::vector<int64_t> strides_of(const mydev_buffer& buffer) {
  return {buffer.strides, buffer.strides + buffer.rank};
}

// Strides without gaps, in the order of other strides.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes, const std::vector<int64_t>& order_of) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t d) { return -std::abs(order_of[d]); });
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0; stride *= sizes[order[i]]) strides[order[i]] = stride;
  return strides;
}

// The calls of one scan.
class Scan {
 public:
  // `operation`: of the language, "sum", "prod", "max", "min" or "log_sum_exp".
  Scan(const Request& request, std::string operation, Domain domain, Work& work)
      : request_(request), operation_(std::move(operation)), domain_(domain), work_(work) {}

  void add(const Elements& out, const Elements& in, std::vector<int64_t> sizes, size_t dim) {
    const int64_t length = std::exchange(sizes[dim], 1);
    const int64_t lines = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
    if (lines * length == 0) return;
    const int64_t groups = (lines + request_.language.elements - 1) / request_.language.elements;
    if (length <= kPart || parts_of(request_, groups, length, 1) == 1) {
      add_call(Step::kWhole, out, in, {}, sizes, dim, length);
      return;
    }
    sizes[dim] = (length + kPart - 1) / kPart;
    const mydev_dtype dtype = sum_dtype(domain_);
    const Elements totals{dtype, work_.take(lines * sizes[dim], dtype), dense_strides(sizes, in.strides)};
    add_call(Step::kTotals, totals, in, {}, sizes, dim, length);
    add(totals, totals, sizes, dim);
    add_call(Step::kParts, out, in, totals, sizes, dim, length);
  }

 private:
  // Whole lines; the totals of parts, which are the results; or parts, which begin with the totals up to them.
  enum class Step : uint8_t { kWhole, kTotals, kParts };

  // The first element is combined with this, which changes nothing.
  std::string first() const {
    if (operation_ == "sum" || operation_ == "prod") return literal(operation_ == "prod" ? 1 : 0, domain_);
    if (domain_ != Domain::kI64)
      return (operation_ != "min" ? "-INFINITY_" : "INFINITY_") + std::string(domain_type(domain_));
    return operation_ == "max" ? "(-9223372036854775807L - 1)" : "9223372036854775807L";
  }

  std::string body(Step step, mydev_dtype dtype, const ElementLoop& loop) const {
    const std::string type = domain_type(domain_);
    std::string text = loop.open_rows() + loop.open_places();
    if (step != Step::kWhole) {
      text += "const i64 begin = " + loop.place(step == Step::kParts ? 3 : 2) +
              ", rest = length - begin, count = rest < " + std::to_string(kPart) +
              " ? rest : " + std::to_string(kPart) + ";\n";
    }
    text += type + " so_far = " + first() + ";\n";
    if (step == Step::kParts) text += "if (begin > 0) so_far = totals[" + loop.place(2) + " - totals_step];\n";
    const std::string add =
        operation_ + "_" + type + "(so_far, " + loaded("in[" + loop.place(1) + " + j * in_step]", dtype, domain_) + ")";
    text += std::string("for (i64 j = 0; j < ") + (step == Step::kWhole ? "length" : "count") +
            "; ++j) {\nso_far = " + add + ";\n";
    if (step != Step::kTotals)
      text += "out[" + loop.place(0) + " + j * out_step] = " + stored("so_far", dtype, domain_) + ";\n";
    text += "}\n";
    if (step == Step::kTotals) text += "out[" + loop.place(0) + "] = so_far;\n";
    return text + loop.close();
  }

  // `sizes`: along `dim` the parts of lines, or 1.
  void add_call(Step step, Elements out, Elements in, const Elements& totals, const std::vector<int64_t>& sizes,
                size_t dim, int64_t length) {
    const int64_t out_step = out.strides[dim], in_step = in.strides[dim];
    Elements begin{.strides = std::vector<int64_t>(sizes.size())};
    begin.strides[dim] = kPart;
    in.strides[dim] *= kPart;
    if (step == Step::kParts) out.strides[dim] *= kPart;
    std::vector<const Elements*> operands = {&out, &in};
    std::vector<std::string> names = {"out", "in"};
    if (step == Step::kParts) {
      operands.push_back(&totals);
      names.emplace_back("totals");
    }
    const size_t in_memory = operands.size();
    if (step != Step::kWhole) {
      operands.push_back(&begin);
      names.emplace_back("begin");
    }
    std::vector<mydev_buffer> buffers;
    buffers.reserve(operands.size());
    for (const Elements* operand : operands)
      buffers.push_back(
          {.sizes = sizes.data(), .strides = operand->strides.data(), .rank = static_cast<int32_t>(sizes.size())});
    std::vector<const mydev_buffer*> pointers;
    pointers.reserve(buffers.size());
    for (const mydev_buffer& buffer : buffers) pointers.push_back(&buffer);
    const ElementLoop loop(request_, Extents(sizes, pointers), names);
    FunctionText function;
    function.add_result(memory_type(out.dtype), names[0]);
    for (size_t i = 1; i < in_memory; ++i) function.add_operand(memory_type(operands[i]->dtype), names[i]);
    loop.declare(function);
    for (const char* number : {"length", "out_step", "in_step"}) function.add_integer(number);
    if (step == Step::kParts) function.add_integer("totals_step");
    const std::string name = "cum" + operation_ + "_" + dtype_name(in.dtype) +
                             std::array{"", "_totals", "_parts"}[static_cast<size_t>(step)];
    Call call(function_of(request_, name + "/" + loop.form() + "/" + domain_type(domain_), name,
                          {[&] { return function.text(name, body(step, in.dtype, loop)); },
                           [&] { return function.parameters(); }}),
              loop.geometry());
    for (size_t i = 0; i < in_memory; ++i) call.give(operands[i]->memory);
    loop.give(call);
    call.give(length).give(out_step).give(in_step);
    if (step == Step::kParts) call.give(totals.strides[dim]);
    work_.calls.push_back(std::move(call));
  }

  const Request& request_;
  std::string operation_;
  Domain domain_;
  Work& work_;
};

}  // namespace

void add_running_sums(const Request& request, Call::Memory numbers, int64_t count, Work& work) {
  const Elements elements{MYDEV_S64, numbers, {1}};
  Scan(request, "sum", Domain::kI64, work).add(elements, elements, {count}, 0);
}

Work plan_cumulative(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer &out = request.buffer(0), &in = request.buffer(1);
  const std::string kernel = request.frame.kernel->name;
  const std::string operation =
      kernel == "mydev.logcumsumexp" ? "log_sum_exp" : kernel.substr(std::string("mydev.cum").size());
  const mydev_dtype dtype = dtype_of(out);
  Domain domain = domain_of(dtype);
  // Sums and products of f32 are kept in f64, where the device has that.
  const bool is_f32 = dtype == MYDEV_F32 && operation != "max" && operation != "min";
  if (is_f32 && request.language.f64) domain = Domain::kF64;
  require(request.language.f64 || domain != Domain::kF64, "compute in no f64 on this device");
  Work work;
  Scan(request, operation, domain, work)
      .add({dtype, {0}, strides_of(out)}, {dtype, {1}, strides_of(in)}, {out.sizes, out.sizes + out.rank},
           static_cast<size_t>(frame.integer("dim")));
  return work;
}

}  // namespace mydev::device_kernels

// Kernels that go along one dimension and keep what they have so far: a thread goes along each line.
#include <array>
#include <string>
#include <vector>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/kernels/data_kernels.h"
#include "device_kernels/text/element_loop.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

struct Scan {
  std::string operation;  // of the language: "sum", "prod", "max", "min", "log_sum_exp"
  mydev_dtype dtype;
  Domain domain;

  // The first element is combined with this, which changes nothing.
  std::string first() const {
    if (operation == "sum" || operation == "prod") return literal(operation == "prod" ? 1 : 0, domain);
    if (domain != Domain::kI64)
      return (operation != "min" ? "-INFINITY_" : "INFINITY_") + std::string(domain_type(domain));
    return operation == "max" ? "(-9223372036854775807L - 1)" : "9223372036854775807L";
  }
  std::string text(const std::string& name, const ElementLoop& loop, FunctionText& function) const {
    const std::string type = domain_type(domain);
    const std::string step =
        operation + "_" + type + "(so_far, " + loaded("in[" + loop.place(1) + " + j * in_step]", dtype, domain) + ")";
    const std::string body = loop.open_rows() + loop.open_places() + type + " so_far = " + first() + ";\n" +
                             "for (i64 j = 0; j < length; ++j) {\nso_far = " + step + ";\nout[" + loop.place(0) +
                             " + j * out_step] = " + stored("so_far", dtype, domain) + ";\n}\n" + loop.close();
    return function.text(name, body);
  }
};

}  // namespace

Work plan_cumulative(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer &out = request.buffer(0), &in = request.buffer(1);
  const auto dim = static_cast<size_t>(frame.integer("dim"));
  const std::string kernel = request.frame.kernel->name;
  const bool logarithmic = kernel == "mydev.logcumsumexp";
  Scan scan{logarithmic ? "log_sum_exp" : kernel.substr(std::string("mydev.cum").size()), dtype_of(out),
            domain_of(dtype_of(out))};
  // Sums and products of f32 are kept in f64, where the device has that.
  const bool is_f32 = scan.dtype == MYDEV_F32 && scan.operation != "max" && scan.operation != "min";
  if (is_f32 && request.language.f64) scan.domain = Domain::kF64;
  require(request.language.f64 || scan.domain != Domain::kF64, "compute in no f64 on this device");
  std::vector<int64_t> sizes(out.sizes, out.sizes + out.rank);
  const int64_t length = sizes[dim];
  sizes[dim] = 1;
  const std::array<const mydev_buffer*, 2> buffers = {&out, &in};
  const ElementLoop loop(request, Extents(sizes, buffers), {"out", "in"});
  Work work;
  if (loop.count() * length == 0) return work;
  FunctionText function;
  function.add_result(memory_type(scan.dtype), "out");
  function.add_operand(memory_type(scan.dtype), "in");
  loop.declare(function);
  for (const char* number : {"length", "out_step", "in_step"}) function.add_integer(number);
  const std::string name = "cum" + scan.operation + "_" + dtype_name(scan.dtype);
  Call call(function_of(request, kernel + "/" + name + "/" + loop.form(), name,
                        {[&] { return scan.text(name, loop, function); }, [&] { return function.parameters(); }}),
            loop.geometry());
  call.give(Call::Memory{0}).give(Call::Memory{1});
  loop.give(call);
  work.calls.push_back(call.give(length).give(out.strides[dim]).give(in.strides[dim]));
  return work;
}

}  // namespace mydev::device_kernels

#include "device_kernels/text/printed_loop.h"

#include "device_kernels/base/value_types.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

ElementLoop loop_over(const Request& request, std::span<const int64_t> sizes, const std::vector<std::string>& names,
                      const std::vector<Steps>& steps) {
  std::vector<mydev_buffer> buffers;
  buffers.reserve(steps.size());
  for (const Steps& each : steps) buffers.push_back(each.buffer());
  std::vector<const mydev_buffer*> pointers;
  pointers.reserve(buffers.size());
  for (const mydev_buffer& buffer : buffers) pointers.push_back(&buffer);
  return {request, Extents(sizes, pointers), names};
}

Call printed_call(const Request& request, const ElementLoop& loop, const FunctionText& function,
                  const std::string& name, const std::string& body) {
  const auto text = [&] { return function.text(name, loop.open_rows() + loop.open_places() + body + loop.close()); };
  return {function_of(request, std::string(request.frame.kernel->name) + "/" + name + "/" + loop.form(), name,
                      {text, [&] { return function.parameters(); }}),
          loop.geometry()};
}

std::string put(const std::string& element, const std::string& value, const std::string& function, mydev_dtype dtype) {
  if (function.empty()) return element + " = " + value + ";\n";
  const Domain domain = domain_of(dtype);
  const std::string combined = function + "_" + domain_type(domain) + "(" + loaded(element, dtype, domain) + ", " +
                               loaded(value, dtype, domain) + ")";
  return element + " = " + stored(combined, dtype, domain) + ";\n";
}

}  // namespace mydev::device_kernels

#include "host_kernels/nested_copy.h"

#include <array>
#include <string>

#include "host_kernels/builtin_kernels.h"
#include "runtime/base/status.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

void nested_copy(const mydev_frame& outer, const char* kernel, const mydev_buffer& to, const mydev_buffer& from) {
  static const mydev_kernel& copy = builtin_kernel("mydev.copy", instruction_set());
  const std::array<mydev_buffer, 2> buffers = {to, from};
  const std::array<mydev_attribute, 2> attributes = {bool_attribute("conj", false), bool_attribute("neg", false)};
  mydev_frame frame = make_frame(buffers, 1, attributes);
  frame.device = outer.device;
  frame.stream = outer.stream;
  frame.host = outer.host;
  frame.launch = outer.launch;
  const mydev_code code = copy.entry(&frame);
  if (code != MYDEV_OK) throw Error(code, std::string(kernel) + ": could not copy an operand");
}

}  // namespace mydev::kernels

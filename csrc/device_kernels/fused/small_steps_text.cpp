#include "device_kernels/fused/small_steps_text.h"

#include <algorithm>
#include <array>

#include "device_kernels/base/value_types.h"
#include "device_kernels/kernels/data_kernels.h"
#include "kernels/spec/form_reader.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

using kernels::SmallBody;

std::span<const int64_t> dims_of(const BoundFrame& frame) {
  const mydev_attribute dims = frame.attribute("dims");
  return {dims.value.ints, dims.count};
}

std::string wrap_negative(const std::string& s, int64_t size) {
  return "if (" + s + " < 0) " + s + " += " + std::to_string(size) + ";\n";
}
std::string clamp_to(const std::string& s, const std::string& most) {
  return s + " = " + s + " < 0 ? 0 : " + s + " > " + most + " ? " + most + " : " + s + ";\n";
}
std::string is_within(const std::string& s, const std::string& most) {
  return s + " >= 0 && " + s + " <= " + most;
}

// Statements that set s0, s1, … to where a part begins along each of `dims`, kept within bounds if `clamp`; and the
// condition that it lies within, otherwise.
struct Begin {
  std::string statements, within;
};
Begin begin_of(const BoundFrame& frame, const SmallView& whole, std::span<const int64_t> window, const SmallView& index,
               const std::string& part, bool clamp, const SmallElement& element) {
  const std::span<const int64_t> dims = dims_of(frame);
  const int64_t from_end = frame.integer("from_end");
  Begin begin{"", "1"};
  for (size_t j = 0; j < dims.size(); ++j) {
    const auto d = static_cast<size_t>(dims[j]);
    const std::string s = "s" + std::to_string(j), most = std::to_string(whole.sizes[d] - window[d]);
    const std::string place = part + " * " + std::to_string(index.strides[0]) + " + " +
                              std::to_string(static_cast<int64_t>(j) * index.strides[1]);
    begin.statements += "i64 " + s + " = (i64)" + element(index, memory_type(index.dtype), place, false) + ";\n";
    if ((from_end >> j & 1) != 0) begin.statements += wrap_negative(s, whole.sizes[d]);
    if (clamp) {
      begin.statements += clamp_to(s, most);
    } else {
      begin.within += " && " + is_within(s, most);
    }
  }
  return begin;
}

// The place in `whole` of the element of number `index` of a part.
std::string place_of_part(const BoundFrame& frame, const SmallView& whole, std::span<const int64_t> window,
                          const std::string& index) {
  std::string place = "(" + place_in(window, whole.strides, "(" + index + ")") + ")";
  const std::span<const int64_t> dims = dims_of(frame);
  for (size_t j = 0; j < dims.size(); ++j) {
    place += " + s" + std::to_string(j) + " * " + std::to_string(whole.strides[static_cast<size_t>(dims[j])]);
  }
  return place;
}

}  // namespace

std::string place_in(std::span<const int64_t> sizes, std::span<const int64_t> strides, const std::string& index) {
  if (kernels::is_dense(sizes, strides)) return index;
  std::string text;
  int64_t inner = 1;
  for (size_t d = sizes.size(); d-- > 0; inner *= sizes[d]) {
    if (sizes[d] == 1 || strides[d] == 0) continue;
    const std::string quotient = inner == 1 ? index : index + " / " + std::to_string(inner);
    text += (text.empty() ? "" : " + ") +
            ("(" + quotient + ") % " + std::to_string(sizes[d]) + " * " + std::to_string(strides[d]));
  }
  return text.empty() ? "0" : text;
}

std::string gathered(const SmallBody::Step& step, const BoundFrame& frame, const SmallElement& element) {
  const SmallView &out = step.views[0], &in = step.views[1], &index = step.views[2];
  const std::span<const int64_t> window = out.sizes.subspan(1);
  const std::string count = std::to_string(std::max<int64_t>(kernels::count_of(window), 1));
  const char* type = bits_type(dtype_size(out.dtype));
  const Begin begin = begin_of(frame, in, window, index, "(e / " + count + ")", /*clamp=*/true, element);
  return begin.statements + element(out, type, "e", true) + " = " +
         element(in, type, place_of_part(frame, in, window, "e % " + count), false) + ";\n";
}

std::string scattered(const SmallBody::Step& step, const BoundFrame& frame, const SmallElement& element,
                      const std::string& part) {
  const SmallView &out = step.views[0], &index = step.views[2], &values = step.views[3];
  const std::span<const int64_t> window = values.sizes.subspan(1);
  const char* type = bits_type(dtype_size(out.dtype));
  const Begin begin = begin_of(frame, out, window, index, part, frame.integer("clamp") != 0, element);
  const std::string from = part + " * " + std::to_string(values.strides[0]) + " + (" +
                           place_in(window, values.strides.subspan(1), "e") + ")";
  return begin.statements + "if (" + begin.within + ") " +
         element(out, type, place_of_part(frame, out, window, "e"), true) + " = " + element(values, type, from, false) +
         ";\n";
}

std::string multiplied(const Request& request, const SmallBody::Step& step, const BoundFrame& frame,
                       const SmallElement& element) {
  const SmallView &out = step.views[0], &a = step.views[1], &b = step.views[2];
  const Domain domain = domain_of(out.dtype);
  require(!is_complex(domain), "multiply no complex matrices in small steps");
  require(request.language.f64 || domain != Domain::kF64, "compute in no f64 on this device");
  const size_t rank = out.sizes.size();
  const int64_t m = out.sizes[rank - 2], n = out.sizes[rank - 1], k = a.sizes[rank - 1];
  const std::string type = domain_type(domain), row = "(e / " + std::to_string(n) + ") % " + std::to_string(m),
                    column = "e % " + std::to_string(n), batch = "e / " + std::to_string(m * n);
  const auto at = [&](const SmallView& view, const std::string& i, const std::string& j) {
    std::string place = "(" + i + ") * " + std::to_string(view.strides[rank - 2]) + " + (" + j + ") * " +
                        std::to_string(view.strides[rank - 1]);
    if (rank == 3) place += " + (" + batch + ") * " + std::to_string(view.strides[0]);
    return place;
  };
  const auto value = [&](const SmallView& view, const std::string& place) {
    return loaded(element(view, memory_type(view.dtype), place, false), view.dtype, domain);
  };
  const bool is_integer = domain == Domain::kI64;
  const auto factor = [&](const char* name) {
    return is_integer ? literal(frame.integer(name)) : literal(frame.number(name), domain);
  };
  const auto product = [&](const std::string& x, const std::string& y) {
    return is_integer ? "(i64)((u64)" + x + " * (u64)" + y + ")" : x + " * " + y;
  };
  const auto sum = [&](const std::string& x, const std::string& y) {
    return is_integer ? "(i64)((u64)(" + x + ") + (u64)(" + y + "))" : x + " + " + y;
  };
  std::string text = type + " sum = 0;\n";
  if (frame.number("alpha") != 0) {
    text += "for (i64 l = 0; l < " + std::to_string(k) +
            "; ++l) sum = " + sum("sum", product(value(a, at(a, row, "l")), value(b, at(b, "l", column)))) + ";\n";
    text += "sum = " + product("sum", factor("alpha")) + ";\n";
  }
  if (frame.number("beta") != 0) {
    const bool is_given = step.views.size() > 3 && step.views[3].kind == SmallView::kMemory;
    const SmallView& addend = is_given ? step.views[3] : out;
    text += "sum = " + sum("sum", product(value(addend, at(addend, row, column)), factor("beta"))) + ";\n";
  }
  return text + element(out, memory_type(out.dtype), at(out, row, column), true) + " = " +
         stored("sum", out.dtype, domain) + ";\n";
}

}  // namespace mydev::device_kernels

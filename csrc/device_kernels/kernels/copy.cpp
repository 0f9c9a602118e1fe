// mydev.copy: elements of one dtype become elements of another, or of the same.
#include <array>
#include <string>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/kernels/data_kernels.h"
#include "device_kernels/text/copied_element.h"
#include "device_kernels/text/element_loop.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

// The text of what an element becomes.
std::string converted(const std::string& element, mydev_dtype from, mydev_dtype to) {
  const Domain source = domain_of(from), target = domain_of(to);
  std::string value = loaded(element, from, is_real(source) || is_complex(source) ? source : Domain::kI64);
  if (from == MYDEV_U64) value = element;  // which an i64 does not hold
  if (is_complex(target)) {
    const std::string type = domain_type(target), part = target == Domain::kC64 ? "(f32)" : "(f64)";
    return is_complex(source) ? "make_" + type + "(" + part + value + ".re, " + part + value + ".im)"
                              : "make_" + type + "(" + part + value + ", 0)";
  }
  if (is_complex(source) && to != MYDEV_PRED) {
    return stored(value + ".re", to, real_part(source));
  }
  return stored(value, to, source);
}

}  // namespace

const char* CopiedElement::type(mydev_dtype dtype) const {
  return moves() ? bits_type(dtype_size(dtype)) : memory_type(dtype);
}

std::string CopiedElement::name() const {
  if (moves()) return std::string("move_") + bits_type(dtype_size(from));
  return std::string("copy_") + dtype_name(from) + "_" + dtype_name(to) + (conj ? "_conj" : "") + (neg ? "_neg" : "");
}

std::string CopiedElement::store(const std::string& out, const std::string& in) const {
  if (moves()) return out + " = " + in + ";\n";
  const std::string type = memory_type(to);
  std::string value = converted(in, from, to);
  const bool halves = to == MYDEV_F16 || to == MYDEV_BF16;
  if (is_complex(domain_of(to))) {
    const std::string real = neg ? "-z.re" : "z.re", imaginary = neg != conj ? "-z.im" : "z.im";
    return "const " + type + " z = " + value + ";\n" + out + " = make_" + type + "(" + real + ", " + imaginary + ");\n";
  }
  if (neg && halves) value = "f32_to_" + type + "(-" + type + "_to_f32(" + value + "))";
  if (neg && !halves) value = is_real(domain_of(to)) ? "-(" + value + ")" : "(" + type + ")(0 - (u64)" + value + ")";
  return out + " = " + value + ";\n";
}

namespace {

FunctionText function_of(const CopiedElement& form, const ElementLoop& loop) {
  FunctionText function;
  function.add_result(form.type(form.to), "out");
  function.add_operand(form.type(form.from), "in");
  loop.declare(function);
  return function;
}

std::string text_of(const CopiedElement& form, const ElementLoop& loop) {
  const std::string body = form.store(loop.element(0), loop.element(1));
  return function_of(form, loop).text(form.name(), loop.open_rows() + loop.open_places() + body + loop.close());
}

}  // namespace

Work plan_copy(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer &out = request.buffer(0), &in = request.buffer(1);
  const CopiedElement form{static_cast<mydev_dtype>(in.dtype), static_cast<mydev_dtype>(out.dtype),
                           frame.integer("conj") != 0, frame.integer("neg") != 0};
  const auto is_wide = [](mydev_dtype dtype) { return dtype == MYDEV_F64 || dtype == MYDEV_C128; };
  require(form.moves() || request.language.f64 || !(is_wide(form.from) || is_wide(form.to)),
          "convert no f64 on this device");
  const std::array<const mydev_buffer*, 2> buffers = {&out, &in};
  const ElementLoop loop(request, Extents({out.sizes, static_cast<size_t>(out.rank)}, buffers), {"out", "in"});
  Work work;
  if (loop.count() == 0) return work;
  Call call(function_of(request, "mydev.copy/" + form.name() + "/" + loop.form(), form.name(),
                        {[&] { return text_of(form, loop); }, [&] { return function_of(form, loop).parameters(); }}),
            loop.geometry());
  call.give(Call::Memory{0}).give(Call::Memory{1});
  loop.give(call);
  work.calls.push_back(std::move(call));
  return work;
}

}  // namespace mydev::device_kernels

// The plans of random numbers: distributions and dropout by Philox, and the words of counter-based generators.
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/kernels/data_kernels.h"
#include "device_kernels/templates/texts.h"
#include "device_kernels/text/element_loop.h"
#include "device_kernels/text/template_kernel.h"
#include "runtime/frame/frame.h"
#include "runtime/frame/uniform_range.h"

namespace mydev::device_kernels {

namespace {

// Words below this, of the 2^32, have the probability p.
int64_t threshold(double p) {
  return static_cast<int64_t>(std::llround(std::ldexp(p, 32)));
}

int64_t blocks_of(int64_t count, int64_t of_block) {
  return (count + of_block - 1) / of_block;
}

// Adds the call for `count` elements, of which a thread has so many; its first numbers are given.
Call& add_call(const Request& request, const BoundFrame& frame, TemplateUse& use, int64_t count, int64_t of_block,
               Work& work) {
  use.choose("STATE", frame.has("state"));
  const mydev_geometry geometry = rows_of(request, 1, blocks_of(count, of_block), request.language.elements);
  Call& call = work.calls.emplace_back(use.call(frame, geometry));
  call.give(count).give(frame.stride("state", 0)).give(frame.integer("seed")).give(frame.integer("offset"));
  return call;
}

bool is_kernel(const Request& request, std::string_view name) {
  return request.frame.kernel->name == name;
}

// The least number that an exponential distribution gives: what would be rounded to 0 becomes it.
double smallest_of(mydev_dtype dtype) {
  if (dtype == MYDEV_F16) return 0x1p-24;
  return dtype == MYDEV_F64 ? std::numeric_limits<double>::min() : double{std::numeric_limits<float>::min()};
}

}  // namespace

Work plan_random(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer& out = request.buffer(0);
  const mydev_dtype dtype = dtype_of(out);
  const int64_t count = count_of(out);
  Work work;
  if (count == 0) return work;
  const bool is_normal = is_kernel(request, "mydev.random_normal"), wide = dtype == MYDEV_F64;
  const bool is_uniform = is_kernel(request, "mydev.random_uniform");
  double first = 0, second = 0, most = 0;
  if (is_uniform) {
    first = frame.number("low"), second = frame.number("high");
    most = greatest_below(dtype, first, second);
  } else if (is_normal) {
    first = frame.number("mean"), second = frame.number("std");
  } else {
    first = 1 / frame.number("rate"), second = smallest_of(dtype);
  }
  TemplateUse use(request, kRandomText, "random");
  use.type('T', dtype).choose("KIND", is_uniform ? 0 : is_normal ? 1 : 2).choose("WIDE", wide);
  Call& call = add_call(request, frame, use, count, wide ? 2 : 4, work);
  for (const double number : {first, second, most}) use.give_number(call, number);
  return work;
}

Work plan_random_integers(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer& out = request.buffer(0);
  const int64_t count = count_of(out);
  const bool truths = is_kernel(request, "mydev.random_bernoulli");
  Work work;
  if (count == 0) return work;
  TemplateUse use(request, kRandomIntegersText, "random_integers");
  use.type('T', dtype_of(out)).compute_in(Domain::kI64).choose("TRUTHS", truths);
  Call& call = add_call(request, frame, use, count, truths ? 4 : 2, work);
  call.give(truths ? 0 : frame.integer("low"));
  call.give(truths ? threshold(frame.number("p")) : frame.integer("range"));
  return work;
}

Work plan_dropout(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer& out = request.buffer(0);
  const int64_t count = count_of(out);
  const double kept = 1 - frame.number("p");
  Work work;
  if (count == 0) return work;
  TemplateUse use(request, kDropoutText, "dropout");
  use.type('T', dtype_of(out));
  Call& call = add_call(request, frame, use, count, 4, work).give(threshold(kept));
  use.give_number(call, kept == 0 ? 0 : 1 / kept);
  return work;
}

Work plan_threefry(const Request& request) {
  const std::array<std::string, 6> names = {"x", "y", "key0", "key1", "count0", "count1"};
  std::array<const mydev_buffer*, 6> buffers{};
  for (size_t i = 0; i < buffers.size(); ++i) buffers[i] = &request.buffer(i);
  const mydev_buffer& out = *buffers[0];
  const ElementLoop loop(request, Extents({out.sizes, static_cast<size_t>(out.rank)}, buffers),
                         {names.begin(), names.end()});
  Work work;
  if (loop.count() == 0) return work;
  FunctionText function;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i < 2) {
      function.add_result("u32", names[i]);
    } else {
      function.add_operand("u32", names[i]);
    }
  }
  loop.declare(function);
  const auto text = [&] {
    const std::string words = "const threefry_block block = threefry2x32(" + loop.element(2) + ", " + loop.element(3) +
                              ", " + loop.element(4) + ", " + loop.element(5) + ");\n";
    return function.text("threefry2x32_words", loop.open_rows() + loop.open_places() + words + loop.element(0) +
                                                   " = block.a;\n" + loop.element(1) + " = block.b;\n" + loop.close());
  };
  Call& call = work.calls.emplace_back(function_of(request, "mydev.threefry2x32/" + loop.form(), "threefry2x32_words",
                                                   {text, [&] { return function.parameters(); }}),
                                       loop.geometry());
  for (int32_t i = 0; i < 6; ++i) call.give(Call::Memory{i});
  loop.give(call);
  return work;
}

Work plan_random_bits(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer &out = request.buffer(1), &state = request.buffer(2);
  const int64_t o = out.sizes[0], n = out.sizes[1], inner = out.sizes[2], count = o * n * inner;
  const int64_t bytes = dtype_size(dtype_of(out));
  require(state.sizes[0] == 2 || state.sizes[0] == 3, "know generators with two or three words of state");
  const bool threefry = frame.integer("threefry") != 0, wide = bytes == 8;
  const bool in_order = inner == 1 && (n % 2 == 0 || o == 1), pairs = threefry && !wide && !in_order;
  const int64_t of_block = threefry ? 2 : 4;
  const int64_t blocks = pairs ? o * ((n + 1) / 2) * inner : blocks_of(count * (wide ? 2 : 1), of_block);
  TemplateUse use(request, kRandomBitsText, "random_bits");
  use.type('T', bytes == 1 ? MYDEV_U8 : bytes == 2 ? MYDEV_U16 : bytes == 4 ? MYDEV_U32 : MYDEV_U64);
  use.choose("THREEFRY", threefry).choose("HIGH", state.sizes[0] == 3);
  use.choose("PAIRS", pairs).choose("WIDE", wide);
  Work work;
  const mydev_geometry geometry = rows_of(request, 1, std::max<int64_t>(blocks, 1), request.language.elements);
  work.calls.emplace_back(use.call(frame, geometry)).give(n).give(inner).give(count).give(blocks);
  return work;
}

}  // namespace mydev::device_kernels

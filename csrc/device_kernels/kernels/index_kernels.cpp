// The plans of kernels that read or write elements where indices say. Elements that go to one place are taken in order:
// a thread has a line of elements that cannot meet those of other threads.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/kernels/data_kernels.h"
#include "device_kernels/templates/texts.h"
#include "device_kernels/text/printed_loop.h"
#include "device_kernels/text/template_kernel.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

std::vector<int64_t> sizes_of(const mydev_buffer& buffer) {
  return {buffer.sizes, buffer.sizes + buffer.rank};
}

// "sum" for a kernel whose name ends with "_add".
std::string combination_of(const Request& request) {
  const std::string_view kernel = request.frame.kernel->name;
  for (const auto& [ending, function] :
       {std::pair<std::string_view, const char*>{"_add", "sum"}, {"_mul", "prod"}, {"_max", "max"}, {"_min", "min"}}) {
    if (kernel.ends_with(ending)) return function;
  }
  return "";
}

// The type of elements that are combined, or moved as they are.
std::string element_type(const Request& request, const mydev_buffer& buffer, const std::string& combination) {
  const bool wide = dtype_of(buffer) == MYDEV_F64 || dtype_of(buffer) == MYDEV_C128;
  require(request.language.f64 || combination.empty() || !wide, "compute in no f64 on this device");
  return combination.empty() ? bits_type(dtype_size(dtype_of(buffer))) : memory_type(dtype_of(buffer));
}

// The elements of `from` as those of `to`, which are as many and dense; scratch has the dtype that is given.
Call converted(const Request& request, Call::Memory to, mydev_dtype to_dtype, Call::Memory from, mydev_dtype from_dtype,
               int64_t count) {
  TemplateUse use(request, kConvertText, "convert");
  use.type('T', to_dtype).type('U', from_dtype);
  if (to_dtype != from_dtype) use.compute_in(Domain::kF32);  // halves and f32
  return use.call(rows_of(request, 1, count, request.language.elements)).give(to).give(from).give(count);
}

}  // namespace

Work plan_isin(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer &elements = request.buffer(1), &tests = request.buffer(2);
  Work work;
  if (elements.sizes[0] == 0) return work;
  TemplateUse use(request, kIsinText, "isin");
  use.type('T', dtype_of(elements));
  const int64_t n = elements.sizes[0];
  Call& call = work.calls.emplace_back(use.call(frame, rows_of(request, 1, n, request.language.elements)));
  call.give(n).give(tests.sizes[0]).give(frame.integer("invert"));
  return work;
}

Work plan_gather(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer &out = request.buffer(0), &in = request.buffer(1), &index = request.buffer(2);
  const auto dim = static_cast<size_t>(frame.integer("dim"));
  const ElementLoop loop =
      loop_over(request, sizes_of(out), {"out", "in", "index"}, {Steps(out), Steps(in).set(dim, 0), Steps(index)});
  Work work;
  if (loop.count() == 0) return work;
  const std::string type = bits_type(dtype_size(dtype_of(out)));
  const bool truths = dtype_of(out) == MYDEV_PRED;
  FunctionText function;
  function.add_result(type, "out");
  function.add_operand(type, "in");
  function.add_operand("i64", "index");
  loop.declare(function);
  for (const char* number : {"step", "limit"}) function.add_integer(number);
  const std::string picked = "in[" + loop.place(1) + " + from * step]";
  const std::string body = "i64 from = " + loop.element(2) + ";\nCHECK_INDEX(from, limit);\n" + loop.element(0) +
                           " = " + (truths ? "(u8)(" + picked + " != 0)" : picked) + ";\n";
  Call call = printed_call(request, loop, function, (truths ? "gather_pred_" : "gather_") + type, body);
  for (const int32_t buffer : {0, 1, 2}) call.give(Call::Memory{buffer});
  loop.give(call);
  work.calls.push_back(call.give(in.strides[dim]).give(in.sizes[dim]));
  return work;
}

Work plan_scatter(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer &out = request.buffer(0), &index = request.buffer(1), &src = request.buffer(2);
  const auto dim = static_cast<size_t>(frame.integer("dim"));
  std::vector<int64_t> sizes = sizes_of(index);
  const int64_t length = sizes[dim];
  sizes[dim] = 1;
  const ElementLoop loop = loop_over(request, sizes, {"out", "index", "src"}, {Steps(out), Steps(index), Steps(src)});
  Work work;
  if (loop.count() * length == 0) return work;
  const std::string combination = combination_of(request), type = element_type(request, src, combination);
  FunctionText function;
  function.add_result(type, "out");
  function.add_operand("i64", "index");
  function.add_operand(type, "src");
  loop.declare(function);
  for (const char* number : {"length", "limit", "out_step", "index_step", "src_step"}) function.add_integer(number);
  const std::string body = "for (i64 j = 0; j < length; ++j) {\ni64 to = index[" + loop.place(1) +
                           " + j * index_step];\nCHECK_INDEX(to, limit);\n" +
                           put("out[" + loop.place(0) + " + to * out_step]",
                               "src[" + loop.place(2) + " + j * src_step]", combination, dtype_of(src)) +
                           "}\n";
  const std::string name =
      combination.empty() ? "scatter_" + type : std::string("scatter_add_") + dtype_name(dtype_of(src));
  Call call = printed_call(request, loop, function, name, body);
  for (const int32_t buffer : {0, 1, 2}) call.give(Call::Memory{buffer});
  loop.give(call);
  call.give(length).give(out.sizes[dim]).give(out.strides[dim]).give(index.strides[dim]);
  work.calls.push_back(call.give(src.strides[dim]));
  return work;
}

namespace {

// out[o,index[n],i] gets values[o,n,i]: a thread for each o and i. `sum`: of what elements are added to, which may be
// scratch in another dtype.
Call index_write(const Request& request, const std::string& combination, Call::Memory sum, mydev_dtype sum_dtype) {
  const mydev_buffer &out = request.buffer(0), &index = request.buffer(1), &values = request.buffer(2);
  const int64_t places = out.sizes[1], inner = out.sizes[2];
  const std::vector<int64_t> sizes = {out.sizes[0], inner};
  const ElementLoop loop = loop_over(request, sizes, {"out", "values"},
                                     {Steps({places * inner, 1}), Steps({values.strides[0], values.strides[2]})});
  const mydev_dtype dtype = dtype_of(values), index_dtype = dtype_of(index);
  const bool adds = !combination.empty();
  const std::string type = element_type(request, values, combination);
  FunctionText function;
  function.add_result(adds ? memory_type(sum_dtype) : type, "out");
  function.add_operand(memory_type(index_dtype), "index");
  function.add_operand(type, "values");
  loop.declare(function);
  for (const char* number : {"count", "index_step", "limit", "out_step", "values_step"}) function.add_integer(number);
  std::string value = "values[" + loop.place(1) + " + j * values_step]";
  if (sum_dtype != dtype) value = loaded(value, dtype, Domain::kF32);
  const std::string body = "for (i64 j = 0; j < count; ++j) {\ni64 to = (i64)index[j * index_step];\n" +
                           std::string("CHECK_INDEX(to, limit);\n") +
                           put("out[" + loop.place(0) + " + to * out_step]", value, combination, sum_dtype) + "}\n";
  const std::string name = std::string(adds ? "index_add_" : "index_copy_") +
                           (adds ? std::string(dtype_name(dtype)) : type) + "_" + memory_type(index_dtype);
  Call call = printed_call(request, loop, function, name, body);
  call.give(sum).give(Call::Memory{1}).give(Call::Memory{2});
  loop.give(call);
  call.give(values.sizes[1]).give(index.strides[0]).give(places).give(inner).give(values.strides[1]);
  return call;
}

}  // namespace

Work plan_index_copy(const Request& request) {
  Work work;
  if (count_of(request.buffer(0)) == 0) return work;
  work.calls.push_back(index_write(request, "", Call::Memory{0}, dtype_of(request.buffer(2))));
  return work;
}

Work plan_index_add(const Request& request) {
  const mydev_buffer& out = request.buffer(0);
  const mydev_dtype dtype = dtype_of(out);
  const int64_t count = count_of(out);
  const bool halves = dtype == MYDEV_F16 || dtype == MYDEV_BF16;
  Work work;
  if (count == 0) return work;
  if (!halves) {
    work.calls.push_back(index_write(request, "sum", Call::Memory{0}, dtype));
    return work;
  }
  const Call::Memory sums{};
  work.scratch_bytes = static_cast<uint64_t>(count) * sizeof(float);
  work.calls.push_back(converted(request, sums, MYDEV_F32, Call::Memory{0}, dtype, count));
  work.calls.push_back(index_write(request, "sum", sums, MYDEV_F32));
  work.calls.push_back(converted(request, Call::Memory{0}, dtype, sums, MYDEV_F32, count));
  return work;
}

Work plan_flat_index(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand *outer = frame.find("outer"), *index = frame.find("index");
  const mydev_buffer& out = request.buffer(0);
  const bool has_outer = is_there(outer);
  std::vector<std::string> names = {"out", "index"};
  std::vector<Steps> steps = {Steps(out), Steps(frame.buffer(*index))};
  if (has_outer) {
    names.emplace_back("outer");
    steps.emplace_back(frame.buffer(*outer));
  }
  const ElementLoop loop = loop_over(request, sizes_of(out), names, steps);
  Work work;
  if (loop.count() == 0) return work;
  FunctionText function;
  function.add_result("i64", "out");
  function.add_operand(memory_type(index->dtype), "index");
  if (has_outer) function.add_operand("i64", "outer");
  loop.declare(function);
  function.add_integer("limit");
  const std::string within = has_outer ? loop.element(2) + " * limit + place" : "place";
  const std::string body = "i64 place = (i64)" + loop.element(1) + ";\nplace += place < 0 ? limit : 0;\n" +
                           "CHECK_INDEX(place, limit);\n" + loop.element(0) + " = " + within + ";\n";
  const std::string name = std::string(has_outer ? "flat_index_outer_" : "flat_index_") + memory_type(index->dtype);
  Call call = printed_call(request, loop, function, name, body);
  call.give(Call::Memory{0}).give(Call::Memory{index->buffer});
  if (has_outer) call.give(Call::Memory{outer->buffer});
  loop.give(call);
  work.calls.push_back(call.give(frame.integer("size")));
  return work;
}

Work plan_triangle(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer &out = request.buffer(0), &in = request.buffer(1);
  const auto rank = static_cast<size_t>(out.rank);
  const int64_t height = out.sizes[rank - 2], width = out.sizes[rank - 1];
  // Rows and columns are counted as places in tensors that are not there.
  const Steps nothing(std::vector<int64_t>(rank, 0));
  const ElementLoop loop =
      loop_over(request, sizes_of(out), {"out", "in", "rows", "columns"},
                {Steps(out), Steps(in), Steps(nothing).set(rank - 2, 1), Steps(nothing).set(rank - 1, 1)});
  Work work;
  if (loop.count() == 0) return work;
  const std::string type = bits_type(dtype_size(dtype_of(out)));
  const bool upper = frame.integer("upper") != 0;
  FunctionText function;
  function.add_result(type, "out");
  function.add_operand(type, "in");
  loop.declare(function);
  function.add_integer("diagonal");
  const std::string zero = type == "u128" ? "const u128 zero = {0, 0};\n" : "const " + type + " zero = 0;\n";
  const std::string body = zero + "const i64 across = (i64)(" + loop.place(3) + ") - (i64)(" + loop.place(2) + ");\n" +
                           "if (across " + (upper ? ">= " : "<= ") + "diagonal) {\n" + loop.element(0) + " = " +
                           loop.element(1) + ";\n} else {\n" + loop.element(0) + " = zero;\n}\n";
  Call call = printed_call(request, loop, function, (upper ? "upper_" : "lower_") + type, body);
  call.give(Call::Memory{0}).give(Call::Memory{1});
  loop.give(call);
  work.calls.push_back(call.give(std::clamp(frame.integer("diagonal"), -height, width)));
  return work;
}

namespace {

// Parts of sizes w of a tensor of sizes d, which begin at index[i,j] along dimension dims[j].
class Parts {
 public:
  // `parts`: [n,w...].
  Parts(const BoundFrame& frame, const mydev_buffer& whole, const mydev_buffer& parts, const mydev_buffer& index)
      : whole_(whole), parts_(parts), index_(index), from_end_(frame.integer("from_end")) {
    const mydev_attribute dims = frame.attribute("dims");
    for (uint32_t j = 0; j < dims.count; ++j) dims_.push_back(dims.value.ints[j]);
  }

  size_t count() const { return dims_.size(); }
  int64_t dim(size_t j) const { return dims_[j]; }
  int64_t part_size(int64_t d) const { return parts_.sizes[d + 1]; }
  // Parts have one element along each dimension that indices are of, so that they are the same or apart.
  bool are_apart() const {
    return std::ranges::all_of(dims_, [&](int64_t d) { return part_size(d) == 1; });
  }
  std::string name() const { return std::to_string(count()) + "_" + memory_type(dtype_of(index_)); }

  void declare(FunctionText& function) const {
    function.add_integer("index_step");
    for (size_t j = 0; j < count(); ++j) {
      for (const char* number : {"last", "step", "wrap"}) function.add_integer(number + std::to_string(j));
    }
  }
  void give(Call& call) const {
    call.give(index_.strides[1]);
    for (size_t j = 0; j < count(); ++j) {
      const int64_t d = dims_[j], size = whole_.sizes[d];
      call.give(size - part_size(d)).give(whole_.strides[d]).give((from_end_ >> j & 1) != 0 ? size : 0);
    }
  }
  // Statements that find where a part begins: begin0, begin1, ... and `at`, their place in the tensor. `row`: the place
  // of the part's first index. Each is moved to where the part lies within; `within` says whether none was moved.
  std::string begin(const std::string& row) const {
    std::string text = "i64 at = 0;\nbool within = true;\n";
    for (size_t j = 0; j < count(); ++j) text += begin_along(row, std::to_string(j));
    return text;
  }

 private:
  static std::string begin_along(const std::string& row, const std::string& k) {
    const std::string begin = "begin" + k, last = "last" + k;
    std::string text = "const i64 given" + k + " = (i64)index[" + row + " + " + k + " * index_step], wrapped" + k +
                       " = given" + k + " < 0 ? given" + k + " + wrap" + k + " : given" + k + ";\n";
    text += "const i64 " + begin + " = wrapped" + k + " < 0 ? 0 : wrapped" + k + " > " + last + " ? " + last +
            " : wrapped" + k + ";\n";
    return text + "within = within && " + begin + " == wrapped" + k + ";\nat += " + begin + " * step" + k + ";\n";
  }

  const mydev_buffer &whole_, &parts_, &index_;
  int64_t from_end_;
  std::vector<int64_t> dims_;
};

}  // namespace

Work plan_gather_slices(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer &out = request.buffer(0), &in = request.buffer(1), &index = request.buffer(2);
  const Parts parts(frame, in, out, index);
  std::vector<int64_t> in_steps = {0};
  in_steps.insert(in_steps.end(), in.strides, in.strides + in.rank);
  const Steps nothing(std::vector<int64_t>(static_cast<size_t>(out.rank), 0));
  const ElementLoop loop = loop_over(request, sizes_of(out), {"out", "in", "index"},
                                     {Steps(out), Steps(in_steps), Steps(nothing).set(0, index.strides[0])});
  Work work;
  if (loop.count() == 0) return work;
  const std::string type = bits_type(dtype_size(dtype_of(out)));
  FunctionText function;
  function.add_result(type, "out");
  function.add_operand(type, "in");
  function.add_operand(memory_type(dtype_of(index)), "index");
  loop.declare(function);
  parts.declare(function);
  const std::string body = parts.begin(loop.place(2)) + loop.element(0) + " = in[" + loop.place(1) + " + at];\n";
  Call& call = work.calls.emplace_back(
      printed_call(request, loop, function, "gather_slices_" + type + "_" + parts.name(), body));
  for (const int32_t buffer : {0, 1, 2}) call.give(Call::Memory{buffer});
  loop.give(call);
  parts.give(call);
  return work;
}

namespace {

// Writes the parts to the result, which has the tensor already. If parts are the same or apart, there is a thread for
// each element that all parts have in common with others of their kind. Else there is a thread for each element of the
// result that parts may have.
Call scatter_slices(const Request& request, const BoundFrame& frame) {
  const mydev_buffer &out = request.buffer(0), &index = request.buffer(2), &values = request.buffer(3);
  const Parts parts(frame, out, values, index);
  const std::string combination = combination_of(request), type = element_type(request, out, combination);
  const bool apart = parts.are_apart(), clamps = frame.integer("clamp") != 0;
  std::vector<int64_t> sizes(values.sizes + 1, values.sizes + values.rank);
  std::vector<std::string> names = {"out", "values"};
  std::vector<Steps> steps = {Steps(out), Steps(values, 1)};
  const Steps nothing(std::vector<int64_t>(sizes.size(), 0));
  for (size_t j = 0; j < parts.count() && !apart; ++j) {
    const auto d = static_cast<size_t>(parts.dim(j));
    sizes[d] = out.sizes[d];
    names.push_back("along" + std::to_string(j));
    steps.push_back(Steps(nothing).set(d, 1));
  }
  const ElementLoop loop = loop_over(request, sizes, names, steps);
  FunctionText function;
  function.add_result(type, "out");
  function.add_operand(memory_type(dtype_of(index)), "index");
  function.add_operand(type, "values");
  loop.declare(function);
  parts.declare(function);
  for (const char* number : {"count", "row_step", "values_step"}) function.add_integer(number);
  std::string meets = clamps ? "true" : "within", from = loop.place(1) + " + part * values_step";
  for (size_t j = 0; j < parts.count() && !apart; ++j) {
    const std::string k = std::to_string(j), offset = "(" + loop.place(2 + j) + " - begin" + k + ")";
    for (const char* number : {"size", "value_step"}) function.add_integer(number + k);
    meets.append(" && ").append(offset).append(" >= 0 && ").append(offset).append(" < size").append(k);
    from.append(" - begin").append(k).append(" * value_step").append(k);
  }
  const std::string to = "out[" + loop.place(0) + (apart ? " + at]" : "]");
  const std::string body = "for (i64 part = 0; part < count; ++part) {\n" + parts.begin("part * row_step") + "if (" +
                           meets + ") {\n" + put(to, "values[" + from + "]", combination, dtype_of(out)) + "}\n}\n";
  const std::string name = "scatter_slices_" +
                           (combination.empty() ? type : combination + "_" + dtype_name(dtype_of(out))) +
                           (apart ? "_apart_" : "_") + (clamps ? "clamped_" : "") + parts.name();
  Call call = printed_call(request, loop, function, name, body);
  call.give(Call::Memory{0}).give(Call::Memory{2}).give(Call::Memory{3});
  loop.give(call);
  parts.give(call);
  call.give(values.sizes[0]).give(index.strides[0]).give(values.strides[0]);
  for (size_t j = 0; j < parts.count() && !apart; ++j) {
    call.give(parts.part_size(parts.dim(j))).give(values.strides[parts.dim(j) + 1]);
  }
  return call;
}

}  // namespace

Work plan_scatter_slices(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer &out = request.buffer(0), &values = request.buffer(3);
  const int64_t count = count_of(out);
  Work work;
  if (count == 0) return work;
  work.calls.push_back(converted(request, Call::Memory{0}, moved_as(out), Call::Memory{1}, moved_as(out), count));
  if (count_of(values) != 0) work.calls.push_back(scatter_slices(request, frame));
  return work;
}

}  // namespace mydev::device_kernels

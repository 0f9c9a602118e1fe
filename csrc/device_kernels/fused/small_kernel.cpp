// `mydev.small_steps`: steps over a few elements each, with their loops and conditions, as one function of one group.
//
// The group's threads share the elements of a step, and wait for each other behind it. Sizes, strides and numbers are
// in the text: such a function is one program's own.
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "device_kernels/fused/fused_kernel.h"
#include "device_kernels/fused/small_steps_text.h"
#include "device_kernels/kernels/data_kernels.h"
#include "device_kernels/text/copied_element.h"
#include "device_kernels/text/expression_stages.h"
#include "kernels/spec/form_reader.h"
#include "kernels/spec/small_body.h"
#include "runtime/base/hash.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

using kernels::SmallBody;
using View = SmallView;

// Bytes of a constant, which stand in the text.
constexpr size_t kMostConstant = 4096;

uint64_t bits_at(std::span<const std::byte> bytes, size_t at, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + at, size);
  return bits;
}

class SmallText {
 public:
  SmallText(const Request& request, const SmallBody& body) : request_(request), body_(body) {
    find_written();
    place_memory();
    write_steps(0, body.steps.size());
  }

  Work work() {
    FunctionText function;
    std::vector<Call::Memory> memory;
    for (const bool written : {true, false}) {
      if (written && scratch_ != 0) {
        function.add_result("u8", "scratch");
        memory.push_back({-1});
      }
      for (size_t i = 0; i < body_.bindings.size() && body_.bindings[i].kind == SmallBody::Binding::kBuffer; ++i) {
        if (written_.contains(i) != written) continue;
        written ? function.add_result("u8", base(i)) : function.add_operand("u8", base(i));
        memory.push_back({static_cast<int32_t>(i)});
      }
    }
    std::string text = function.text("small_steps", "GROUPS_OPEN(i64, g, 1)\n" + bases_ + steps_ + "GROUPS_CLOSE\n");
    const std::string key = "small_steps/" + std::to_string(fnv1a(text)) + "/" + std::to_string(fnv1a(text, 1));
    KernelParameters parameters = function.parameters();
    Call call(function_of(request_, key, "small_steps", {[&] { return text; }, [&] { return parameters; }}),
              groups(request_, 1));
    for (const Call::Memory& each : memory) call.give(each);
    Work work;
    work.scratch_bytes = static_cast<uint64_t>(scratch_);
    work.calls.push_back(std::move(call));
    return work;
  }

 private:
  static std::string base(size_t binding) { return "b" + std::to_string(binding); }

  size_t root_of(size_t binding) const {
    while (body_.bindings[binding].kind == SmallBody::Binding::kMoving) binding = body_.bindings[binding].base;
    return binding;
  }
  bool is_written(size_t binding) const { return written_.contains(root_of(binding)); }

  void find_written() {
    for (const SmallBody::Step& step : body_.steps) {
      for (size_t i = 0; i < step.results; ++i) {
        if (step.views[i].kind == View::kMemory) written_.insert(root_of(step.views[i].binding));
      }
    }
    for (size_t i = 0; i < body_.bindings.size(); ++i) {
      const auto kind = body_.bindings[i].kind;
      if (kind == SmallBody::Binding::kTemporary || kind == SmallBody::Binding::kConstant) written_.insert(i);
    }
  }

  void place_memory() {
    for (size_t i = 0; i < body_.bindings.size(); ++i) {
      const SmallBody::Binding& binding = body_.bindings[i];
      if (binding.kind != SmallBody::Binding::kTemporary && binding.kind != SmallBody::Binding::kConstant) continue;
      bases_ += "OUT(u8) " + base(i) + " = scratch + " + std::to_string(scratch_) + ";\n";
      scratch_ += (binding.end + 63) / 64 * 64;
      require(scratch_ <= SmallBody::kMostTemporary, "have more than ", SmallBody::kMostTemporary,
              " bytes of memory of their own");
      if (binding.kind == SmallBody::Binding::kConstant) write_constant(i, 0, binding.data, binding.data.size());
    }
    if (!steps_.empty()) steps_ += "GROUP_BARRIER;\n";
  }

  // Writes so many bytes to a binding, by repeating others.
  void write_constant(size_t binding, int64_t offset, std::span<const std::byte> pattern, size_t bytes) {
    if (bytes == 0) return;
    size_t unit = 8;
    while (pattern.size() % unit != 0 || offset % static_cast<int64_t>(unit) != 0) unit /= 2;
    require(pattern.size() <= kMostConstant, "have a constant of ", pattern.size(), " bytes");
    const std::string type = bits_type(static_cast<int64_t>(unit)), suffix = unit == 8 ? "UL" : "U";
    std::set<uint64_t> different;
    std::string words;
    for (size_t at = 0; at < pattern.size(); at += unit) {
      const uint64_t bits = bits_at(pattern, at, unit);
      different.insert(bits);
      words += (at == 0 ? "" : ", ") + std::to_string(bits) + suffix;
    }
    const int64_t count = static_cast<int64_t>(bytes / unit), own = static_cast<int64_t>(pattern.size() / unit);
    const bool one = different.size() == 1;
    const std::string value = one           ? "(" + type + ")" + std::to_string(*different.begin()) + suffix
                              : count > own ? "words[e % " + std::to_string(own) + "]"
                                            : "words[e]";
    std::string text =
        "((OUT(" + type + "))(" + base(binding) + " + " + std::to_string(offset) + "))[e] = " + value + ";\n";
    text = each(count, text);
    steps_ +=
        one ? text : "{\nconst " + type + " words[" + std::to_string(own) + "] = {" + words + "};\n" + text + "}\n";
  }

  // Makes the statements for each of so many indices e; without the others' work being visible behind them.
  static std::string each(int64_t count, const std::string& statements) {
    if (count == 0) return "";
    if (count == 1) return "ONCE {\nconst i64 e = 0;\n" + statements + "}\n";
    return "LOOP_OPEN(i64, e, " + std::to_string(count) + ")\n" + statements + "LOOP_CLOSE(" + std::to_string(count) +
           ")\n";
  }
  void add_loop(int64_t count, const std::string& statements) {
    if (count != 0) steps_ += each(count, statements) + "GROUP_BARRIER;\n";
  }

  std::string element(const View& view, const std::string& type, const std::string& place, bool writes) const {
    return std::string("((") + (writes ? "OUT(" : "IN(") + type + "))(" + base(view.binding) + " + " +
           std::to_string(view.offset) + "))[" + place + "]";
  }

  static std::string open_loop(const std::string& index, int64_t count) {
    return "for (i64 " + index + " = 0; " + index + " < " + std::to_string(count) + "; ++" + index + ") {\n";
  }

  void write_steps(size_t begin, size_t end) {
    for (size_t i = begin; i < end;) {
      const SmallBody::Step& step = body_.steps[i];
      const std::string name = std::to_string(i);
      const std::string go = "const u8 go" + name + " = ((IN(u8))(" + base(step.binding) + " + " +
                             std::to_string(step.offset) + "))[0];\nGROUP_BARRIER;\n";
      switch (step.kind) {
        case SmallBody::Step::kLaunch:
          write_launch(i++);
          continue;
        case SmallBody::Step::kFill:
          write_constant(step.views[0].binding, step.views[0].offset, step.pattern,
                         static_cast<size_t>(kernels::count_of(step.views[0].sizes) * dtype_size(step.views[0].dtype)));
          steps_ += "GROUP_BARRIER;\n";
          ++i;
          continue;
        case SmallBody::Step::kRepeat:
          steps_ += open_loop("iteration" + name, step.count);
          for (const auto& [binding, bytes] : step.moves) write_moving(binding, "iteration" + name, bytes);
          break;
        case SmallBody::Step::kWhile:
          steps_ += "for (;;) {\n" + go;
          steps_ += "if (go" + name + " == 0) break;\n";
          break;
        default:
          steps_ += "{\n" + go;
          steps_ += "if (go" + name + " != 0) {\n";
      }
      if (step.kind != SmallBody::Step::kIf) {
        write_steps(i + 1, step.end);
      } else {
        write_steps(i + 1, step.otherwise);
        steps_ += "} else {\n";
        write_steps(step.otherwise, step.end);
        steps_ += "}\n";
      }
      steps_ += "}\n";
      i = step.end;
    }
  }

  void write_moving(size_t binding, const std::string& iteration, int64_t bytes) {
    const SmallBody::Binding& moving = body_.bindings[binding];
    steps_ += std::string(is_written(binding) ? "OUT(u8) " : "IN(u8) ") + base(binding) + " = " + base(moving.base) +
              " + (" + std::to_string(moving.offset) + " + " + iteration + " * " + std::to_string(bytes) + ");\n";
  }

  void write_launch(size_t index) {
    const SmallBody::Step& step = body_.steps[index];
    const std::string_view name = step.name;
    if (name == "mydev.concatenate") return write_concatenation(step);
    const KernelContract* contract = builtin_contract(name);
    require(contract != nullptr, "have a step of ", name);
    const std::vector<mydev_buffer> buffers = SmallBody::buffers_of(step);
    const mydev_frame frame = make_frame(buffers, step.results, step.attributes);
    const BoundFrame bound(*contract, frame);
    if (name == "mydev.copy") {
      const CopiedElement copied{step.views[1].dtype, step.views[0].dtype, bound.integer("conj") != 0,
                                 bound.integer("neg") != 0};
      return write_copy(step.views[0], step.views[1], copied);
    }
    const SmallElement element_of = [this](const View& view, const std::string& type, const std::string& place,
                                           bool writes) { return element(view, type, place, writes); };
    if (name == "mydev.gather_slices") {
      return add_loop(kernels::count_of(step.views[0].sizes), gathered(step, bound, element_of));
    }
    if (name == "mydev.scatter_slices") return write_scatter(step, bound, element_of);
    if (name == "mydev.matmul") {
      return add_loop(kernels::count_of(step.views[0].sizes), multiplied(request_, step, bound, element_of));
    }
    require(is_fusible(*contract), "have a step of ", name);
    ExpressionForm form(request_, bound);
    contract->is_reduction() ? write_reduction(index, step, bound, form) : write_pointwise(step, bound, form);
  }

  void write_copy(const View& to, const View& from, const CopiedElement& copied) {
    const auto wide = [](mydev_dtype dtype) { return dtype == MYDEV_F64 || dtype == MYDEV_C128; };
    require(copied.moves() || request_.language.f64 || !(wide(to.dtype) || wide(from.dtype)),
            "convert no f64 on this device");
    const std::string out = element(to, copied.type(to.dtype), place_in(to.sizes, to.strides, "e"), true);
    const std::string in = element(from, copied.type(from.dtype), place_in(from.sizes, from.strides, "e"), false);
    add_loop(kernels::count_of(to.sizes), copied.store(out, in));
  }

  // The parts one after another: a later one may overwrite an earlier one.
  void write_scatter(const SmallBody::Step& step, const BoundFrame& bound, const SmallElement& element_of) {
    const View &out = step.views[0], &in = step.views[1], &values = step.views[3];
    if (out.binding != in.binding || out.offset != in.offset) write_copy(out, in, {out.dtype, out.dtype, false, false});
    steps_ += "for (i64 part = 0; part < " + std::to_string(values.sizes[0]) + "; ++part) {\n";
    add_loop(kernels::count_of(values.sizes.subspan(1)), scattered(step, bound, element_of, "part"));
    steps_ += "}\n";
  }

  // Operands are joined along the middle of three dimensions: each is moved into its part of the result.
  void write_concatenation(const SmallBody::Step& step) {
    View part = step.views[0];
    for (size_t k = 1; k < step.views.size(); ++k) {
      part.sizes = step.views[k].sizes;
      write_copy(part, step.views[k], {part.dtype, part.dtype, false, false});
      part.offset += part.sizes[1] * part.strides[1] * dtype_size(part.dtype);
    }
  }

  void write_pointwise(const SmallBody::Step& step, const BoundFrame& bound, const ExpressionForm& form) {
    ExpressionText text(form.contract->expression, form.domain, form.dtype);
    std::string stores;
    const auto text_of = [&](const BoundOperand& operand) {
      const View& view = step.views[static_cast<size_t>(operand.buffer)];
      return element(view, memory_type(operand.dtype), place_in(view.sizes, view.strides, "e"), operand.is_result);
    };
    for (const BoundOperand* operand : memory_of(form.operands)) {
      if (operand->is_result && !operand->contract->is_updated) continue;
      auto [statement, value] = load(*operand, text_of(*operand), form.domain);
      text.bind_late(operand->contract->name, std::move(statement), std::move(value));
    }
    form.bind_literals(text, bound);
    for (const BoundOperand* operand : memory_of(form.operands)) {
      if (!operand->is_result) continue;
      const Printed result = text.print(text.node_of(operand->contract->name));
      stores += text_of(*operand) + " = " + stored(text, result, operand->dtype) + ";\n";
    }
    add_loop(kernels::count_of(step.views[0].sizes), text.statements() + stores);
  }

  // The outer dimensions of a reduction, and the reduced ones.
  struct Split {
    std::vector<int64_t> sizes[2], strides[2];
  };
  static Split split(const View& view, const std::vector<bool>& reduced) {
    Split parts;
    for (size_t d = 0; d < view.sizes.size(); ++d) {
      parts.sizes[reduced[d] ? 1 : 0].push_back(view.sizes[d]);
      parts.strides[reduced[d] ? 1 : 0].push_back(view.strides[d]);
    }
    return parts;
  }

  // A thread for each result.
  void write_reduction(size_t index, const SmallBody::Step& step, const BoundFrame& bound, ExpressionForm& form) {
    const std::vector<const BoundOperand*> memory = memory_of(form.operands);
    const View& first = step.views[static_cast<size_t>(memory.front()->buffer)];
    std::vector<bool> reduced;
    reduced.reserve(first.sizes.size());
    for (size_t d = 0; d < first.sizes.size(); ++d) reduced.push_back(first.sizes[d] != 1 && first.strides[d] == 0);
    const Split results = split(first, reduced);
    const int64_t elements = kernels::count_of(results.sizes[1]);
    form.count = elements;
    const auto text_of = [&](const BoundOperand& operand) {
      const View& view = step.views[static_cast<size_t>(operand.buffer)];
      const Split parts = split(view, reduced);
      std::string place = place_in(parts.sizes[0], parts.strides[0], "e");
      if (!operand.is_result) place = "(" + place + ") + " + place_in(parts.sizes[1], parts.strides[1], "j");
      return element(view, memory_type(operand.dtype), place, operand.is_result);
    };
    ExpressionText text(form.contract->expression, form.domain, form.dtype);
    for (const BoundOperand* operand : memory) {
      if (operand->is_result) continue;
      auto [statement, value] = load(*operand, text_of(*operand), form.domain);
      text.bind_late(operand->contract->name, std::move(statement), std::move(value));
    }
    form.bind_literals(text, bound);
    ExpressionStages stages(form, StageLoop("j", elements), text, "acc" + std::to_string(index) + "_");
    std::string body = "{\nconst int lane = 0;\n";
    for (size_t i = 0; i < stages.count(); ++i) {
      const StageText stage = stages.next();
      body += stage.declarations + "for (i64 j = 0; j < " + std::to_string(elements) + "; ++j) {\n" + stage.elements +
              "}\n" + stage.values;
    }
    text.begin_block();
    std::string stores;
    for (const BoundOperand* operand : memory) {
      if (operand->is_result) stores += text_of(*operand) + " = " + stages.stored_result(*operand) + ";\n";
    }
    add_loop(kernels::count_of(results.sizes[0]), body + text.statements() + stores + "}\n");
  }

  const Request& request_;
  const SmallBody& body_;
  std::set<size_t> written_;  // bindings that are no part of others
  int64_t scratch_ = 0;
  std::string bases_, steps_;
};

}  // namespace

Work plan_small_steps(const Request& request) {
  const SmallBody body = SmallBody::read(request.frame);
  return SmallText(request, body).work();
}

}  // namespace mydev::device_kernels

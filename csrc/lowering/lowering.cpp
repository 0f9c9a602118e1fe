#include "lowering/lowering.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lowering/collectives/collectives.h"
#include "lowering/donation.h"
#include "lowering/frame.h"
#include "lowering/memory_kinds.h"
#include "program/ir/names.h"
#include "program/transform/fusion.h"
#include "program/transform/simplify.h"
#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"
#include "stablehlo/text/text.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

void count_uses(const Region& region, std::vector<Uses>& uses) {
  for (const Block* block : region.blocks) {
    for (const Operation* op : block->operations) {
      for (const Value* operand : op->operands) {
        ++uses[operand->id].count;
        uses[operand->id].last = op;
      }
      for (const Region* inner : op->regions) count_uses(*inner, uses);
    }
  }
}

// A valid name for the program: "jit_<lambda>" becomes "jit__lambda_".
std::string program_name(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    if (!continues_name(c)) c = '_';
  }
  return program::is_name(result) ? result : "main_" + result;
}

std::string text_of(const program::Operand& view) {
  std::string text = std::to_string(view.slot) + '+' + std::to_string(view.offset) + ':' + std::to_string(view.dtype);
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    text += ',' + std::to_string(view.sizes[d]) + '*' + std::to_string(view.strides[d]);
  }
  return text;
}

// A key that differs between operations that compute something else; "": the result is not shared.
std::string key_of(const Frame& frame, const Operation& op) {
  const bool is_call = op.op == Operator::kCustomCall || op.op == Operator::kCall || op.op == Operator::kComposite;
  if (is_call || !op.regions.empty() || op.row().has(kSideEffects) || op.results.empty()) return "";
  if (op.op == Operator::kConstant && op.result().type->rank() != 0) return "";
  const auto is_tensor = [](const Value* value) { return value->type->is_tensor(); };
  if (!std::ranges::all_of(op.operands, is_tensor) || !std::ranges::all_of(op.results, is_tensor)) return "";
  std::string key(op.name());
  for (const Value* operand : op.operands) key += ' ' + text_of(frame.view(*operand)) + operand->type->text();
  for (const NamedAttribute& attribute : op.attributes) {
    if (attribute.name.find('.') != std::string_view::npos) continue;  // of other dialects
    key += ' ' + std::string(attribute.name) + '=' + print(*attribute.value);
  }
  for (const Value* result : op.results) key += ' ' + result->type->text();
  return key;
}

// Whether a tensor has the sizes and the dtype of its type, on which its readers rely.
bool is_of_type(const program::Operand& view, const Type& type) noexcept {
  return view.sizes == type.dims && view.dtype == dtype_of(type.element);
}

// Whether the tensor has known sizes, and its elements lie in memory as some type of the kernels does.
bool is_lowered_tensor(const Type& type) noexcept {
  return type.is_tensor() && type.is_static() && dtype_size(dtype_of(type.element)) == element_bytes(type.element);
}

bool is_lowered(const Type& type) noexcept {
  if (type.kind == TypeKind::kTuple) {
    return std::ranges::all_of(type.inputs, [](const Type* of) { return is_lowered_tensor(*of); });
  }
  return is_lowered_tensor(type);
}

}  // namespace

const Uses& Context::uses_of(const Value& value) {
  const Function& function = *value.block->region->function;
  std::vector<Uses>& of_values = uses[&function];
  if (of_values.empty()) {
    of_values.resize(function.value_count);
    count_uses(*function.body, of_values);
  }
  return of_values[value.id];
}

const Operation* Context::only_user(const Value& value) {
  const Uses& found = uses_of(value);
  return found.count == 1 ? found.last : nullptr;
}

std::vector<Tensor> Frame::tensors_of(std::span<const Value* const> values) const {
  std::vector<Tensor> tensors;
  for (const Value* value : values) tensors.push_back((*this)[*value]);
  return tensors;
}

void Frame::pass(const Value& to, const Frame& from, const Value& value) {
  if (value.type->kind == TypeKind::kTuple) {
    set_tuple(to, from.tuple(value));
  } else if (value.type->kind != TypeKind::kToken) {
    set(to, from[value]);
  }
}

void Frame::bring_operands(const Operation& op) {
  if (on_host_.empty()) return;
  for (const Value* operand : op.operands) {
    const auto found = on_host_.find(operand->id);
    if (found == on_host_.end()) continue;
    const program::Operand there = result_of(*operand);
    emit.builder().copy(there, found->second);
    set(*operand, {there});
    on_host_.erase(found);
  }
  for (const Region* region : op.regions) {
    for (const Block* block : region->blocks) {
      for (const Operation* inner : block->operations) bring_operands(*inner);
    }
  }
}

void Frame::host_call(std::string_view name, Evaluation evaluation, std::vector<program::Operand> results,
                      std::vector<program::Operand> operands) {
  const auto has_no_elements = [](const program::Operand& result) { return is_empty(result.sizes); };
  if (!results.empty() && std::ranges::all_of(results, has_no_elements)) return;
  for (program::Operand& operand : operands) operand = emit.dense(operand);
  const size_t num_results = results.size();
  auto function = [evaluation = std::move(evaluation), num_results,
                   owner = context.owner](std::span<const mydev_buffer> buffers) {
    std::vector<std::byte*> pointers;
    for (const mydev_buffer& buffer : buffers) pointers.push_back(static_cast<std::byte*>(buffer.data));
    const std::vector<const std::byte*> given(pointers.begin() + static_cast<ptrdiff_t>(num_results), pointers.end());
    evaluation(given, std::span(pointers).first(num_results));
  };
  emit.builder().host_call(std::string(name), std::move(function), std::move(results), std::move(operands));
}

program::Operand Frame::result_of(const Value& value) {
  return emit.temporary(dtype_of(value.type->element), value.type->dims);
}

void lower_block(Frame& frame, const Block& block) {
  for (const Operation* op : block.operations) {
    if (op != &block.terminator()) lower_operation(frame, *op);
  }
}

void lower_operation(Frame& frame, const Operation& op) {
  for (const Value* result : op.results) {
    const Type& type = *result->type;
    if (type.kind != TypeKind::kToken && !is_lowered(type)) {
      op.fail(MYDEV_UNIMPLEMENTED, "gives a ", type.text(), "; tensors whose sizes are known are supported");
    }
  }
  if (lower_moving_part(frame, op)) return;
  const std::string key = key_of(frame, op);
  if (!key.empty()) {
    if (const std::vector<Tensor>* known = frame.emit.find(key)) {
      for (size_t i = 0; i < op.results.size(); ++i) frame.set(*op.results[i], (*known)[i]);
      return;
    }
  }
  if (lower_control(frame, op)) return;
  const bool lowered = lower_collective(frame, op) || lower_known(frame, op) || lower_by_range(frame, op) ||
                       lower_movement(frame, op) || lower_conversion(frame, op) || lower_pointwise(frame, op) ||
                       lower_complex_function(frame, op) || lower_window(frame, op) || lower_reduction(frame, op) ||
                       lower_normalization(frame, op) || lower_ordering(frame, op) || lower_product(frame, op) ||
                       lower_fourier(frame, op) || lower_indexing(frame, op) || lower_random(frame, op);
  if (!lowered) lower_to_host(frame, op);
  for (const Value* result : op.results) {
    // A sort may give only as many elements as its users take.
    MYDEV_ASSERT(op.op == Operator::kSort || !result->type->is_tensor() ||
                 is_of_type(frame.view(*result), *result->type));
  }
  if (!key.empty()) frame.emit.remember(key, frame.tensors_of(op.results));
}

void require_same_types(const Operation& op) {
  const auto is_same = [](const Value* result, const Value* operand) { return *result->type == *operand->type; };
  if (std::ranges::equal(op.results, op.operands, is_same)) return;
  op.fail(MYDEV_INVALID_ARGUMENT, "its results must have the types of its operands, one by one");
}

void lower_to_host(Frame& frame, const Operation& op) {
  Evaluation evaluation = make_evaluation(frame.context.module, op);
  std::vector<program::Operand> results, operands;
  for (const Value* operand : op.operands) operands.push_back(frame.view(*operand));
  for (const Value* result : op.results) {
    results.push_back(frame.result_of(*result));
    frame.set(*result, {results.back(), std::nullopt});
  }
  frame.host_call(op.name(), std::move(evaluation), std::move(results), std::move(operands));
}

namespace {

// Adds the parameter, and returns it as this device has it.
program::Operand take_parameter(Frame& frame, const FunctionArgument& argument, bool donated, bool on_host) {
  const Type& type = *argument.value->type;
  program::ProgramBuilder& builder = frame.emit.builder();
  if (type.kind == TypeKind::kToken) return builder.view(builder.parameter(MYDEV_PRED, {0}));
  MYDEV_CHECK(is_lowered_tensor(type), MYDEV_UNIMPLEMENTED, "function '", frame.function.name, "' takes a ",
              type.text(), "; tensors whose sizes are known are supported");
  const program::SlotIndex slot = builder.parameter(dtype_of(type.element), type.dims, donated && !on_host);
  if (on_host) {
    builder.place_on_host(slot);
    frame.set_on_host(*argument.value, builder.view(slot));
  } else {
    frame.set(*argument.value, {builder.view(slot), std::nullopt});
  }
  return builder.view(slot);
}

// The results of a program. Results in memory of the host are copied there as soon as they are computed.
class Results {
 public:
  Results(Frame& frame, const Operation& terminator, const MemoryKinds& kinds)
      : frame_(frame), terminator_(terminator), views_(terminator.operands.size()) {
    for (size_t i = 0; i < views_.size(); ++i) {
      if (is_on_host(kinds.results[i])) on_host_[terminator.operands[i]].push_back(i);
    }
  }

  void take_from(const Operation& op) {
    for (const Value* value : op.results) take(value);
  }
  // Takes the results that are left, and returns all.
  std::vector<program::Operand> take_all() {
    frame_.bring_operands(terminator_);
    for (size_t i = 0; i < views_.size(); ++i) {
      const Value& value = terminator_.operand(i);
      take(&value);
      if (views_[i].kind != program::Operand::kAbsent) continue;
      const bool is_token = value.type->kind == TypeKind::kToken;
      MYDEV_CHECK(is_token || value.type->is_tensor(), MYDEV_UNIMPLEMENTED, "function '", frame_.function.name,
                  "' returns a ", value.type->text(), "; tensors and tokens are supported");
      views_[i] = is_token ? frame_.emit.temporary(MYDEV_PRED, {0}) : frame_.view(value);
      MYDEV_ASSERT(is_token || is_of_type(views_[i], *value.type));
    }
    return std::move(views_);
  }

 private:
  void take(const Value* value) {
    const auto found = on_host_.find(value);
    if (found == on_host_.end() || value->type->kind == TypeKind::kToken) return;
    for (const size_t i : found->second) {
      views_[i] = frame_.result_of(*value);
      frame_.emit.builder().place_on_host(views_[i].slot);
      frame_.emit.builder().copy(views_[i], frame_.emit.dense(frame_.view(*value)));
    }
    on_host_.erase(found);
  }

  Frame& frame_;
  const Operation& terminator_;
  std::vector<program::Operand> views_;
  std::map<const Value*, std::vector<size_t>> on_host_;
};

// The shardings of a program whose tensors are all whole.
Shardings whole_shardings(const Function& main, int64_t devices) {
  Shardings shardings;
  for (const FunctionArgument& argument : main.arguments) {
    shardings.parameters.emplace_back(devices, argument.value->type->dims.size());
  }
  for (const FunctionResult& result : main.results) shardings.results.emplace_back(devices, result.type->dims.size());
  return shardings;
}

}  // namespace

LoweredProgram lower(const std::shared_ptr<const Module>& program, const Devices& devices) {
  std::shared_ptr<const Partition> parts;
  if (devices.count() > 1 && has_shardings(*program, devices.count())) {
    parts = std::make_shared<const Partition>(partition(*program, devices.count()));
  }
  const Module& module = parts != nullptr ? parts->module : *program;
  const Function& main = module.main();
  using Owners = std::pair<std::shared_ptr<const Module>, std::shared_ptr<const Partition>>;
  Context context{module, std::make_shared<const Owners>(program, parts), devices};
  if (parts != nullptr) context.moves = &parts->moves;
  context.rendezvous = std::make_shared<std::shared_ptr<Collectives>>(std::make_shared<Collectives>(devices.count()));
  program::ProgramBuilder builder(program_name(module.name().empty() ? main.name : module.name()));
  Emitter emit(builder);
  Frame frame(context, emit, main);
  Donations donations = donations_of(module);
  MemoryKinds kinds = memory_kinds_of(*program);
  std::vector<program::Operand> parameters;
  parameters.reserve(main.arguments.size());
  for (size_t i = 0; i < main.arguments.size(); ++i) {
    parameters.push_back(
        take_parameter(frame, main.arguments[i], donations.donated[i], is_on_host(kinds.arguments[i])));
  }
  const Block& body = main.body->body();
  Results returned(frame, body.terminator(), kinds);
  for (const Operation* op : body.operations) {
    if (op == &body.terminator()) continue;
    frame.bring_operands(*op);
    lower_operation(frame, *op);
    returned.take_from(*op);
  }
  std::vector<program::Operand> results = returned.take_all();
  finalize(donations, kinds, parameters, results);
  return_results(emit, parameters, donations, std::move(results));
  const program::SharedProgram built = std::move(builder).build();
  Shardings shardings =
      parts != nullptr ? Shardings{parts->parameters, parts->results} : whole_shardings(main, devices.count());
  return {program::fuse(program::simplify(*built, program::Copies::kReturnInstead)),
          std::move(shardings),
          std::move(kinds),
          std::move(donations.donated),
          std::move(context.gathered),
          std::move(context.collectives_text),
          std::move(context.rendezvous),
          std::move(parts)};
}

}  // namespace mydev::lowering

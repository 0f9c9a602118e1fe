#include "lowering/host_operation.h"

#include <array>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "kernels/registry/kernel_registry.h"
#include "runtime/base/status.h"

namespace mydev::lowering {

namespace {

constexpr char kName[] = "stablehlo.evaluate";

struct Table {
  std::shared_mutex mutex;
  std::unordered_map<int64_t, std::shared_ptr<const stablehlo::Evaluation>> evaluations;
  int64_t last = 0;
};
Table& table() {
  static Table& instance = *new Table;
  return instance;
}

std::shared_ptr<const stablehlo::Evaluation> find(int64_t number) {
  const std::shared_lock lock(table().mutex);
  const auto found = table().evaluations.find(number);
  return found == table().evaluations.end() ? nullptr : found->second;
}

mydev_code evaluate(const mydev_frame* frame) {
  try {
    const auto evaluation = find(frame->attributes[1].value.i);
    MYDEV_CHECK(evaluation != nullptr, MYDEV_FAILED_PRECONDITION,
                "the program that this operation belongs to has been deleted");
    std::vector<std::byte*> results;
    std::vector<const std::byte*> operands;
    for (uint32_t i = 0; i < frame->num_outputs; ++i) {
      results.push_back(static_cast<std::byte*>(frame->buffers[i].data));
    }
    for (uint32_t i = 0; i < frame->num_inputs; ++i) {
      operands.push_back(static_cast<const std::byte*>(frame->buffers[frame->num_outputs + i].data));
    }
    (*evaluation)(operands, results);
    return MYDEV_OK;
  } catch (const Error& error) {
    frame->host->set_error(frame, error.what());
    return error.code();
  } catch (const std::exception& error) {
    frame->host->set_error(frame, error.what());
    return MYDEV_INTERNAL;
  }
}

constexpr mydev_kernel kRecord = {.struct_size = sizeof(mydev_kernel),
                                  .name = kName,
                                  .entry = evaluate,
                                  .doc = "an operation of StableHLO, computed on the host: operator, operation"};

}  // namespace

HostOperations::~HostOperations() {
  const std::unique_lock lock(table().mutex);
  for (const int64_t number : numbers_) table().evaluations.erase(number);
}

void HostOperations::launch(Emitter& emitter, std::string_view name, stablehlo::Evaluation evaluation,
                            std::vector<program::Operand> results, std::vector<program::Operand> operands) {
  [[maybe_unused]] static const bool registered = (register_kernel(kRecord), true);
  int64_t number = 0;
  {
    const std::unique_lock lock(table().mutex);
    number = ++table().last;
    table().evaluations.emplace(number, std::make_shared<const stablehlo::Evaluation>(std::move(evaluation)));
    numbers_.push_back(number);
  }
  for (program::Operand& operand : operands) operand = emitter.dense(operand);
  mydev_attribute text{"operator", MYDEV_ATTRIBUTE_STRING, 0, static_cast<uint32_t>(name.size()), {}};
  text.value.bytes = name.data();
  const std::array attributes = {text, integer_attribute("operation", number)};
  emitter.launch(kName, std::move(results), std::move(operands), attributes);
}

}  // namespace mydev::lowering

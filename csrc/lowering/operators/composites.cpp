// Composites: launches of a kernel of that name, if one of its records takes what it would be given. Else they are
// calls of their decomposition, and a line of the log at level debug says why.
//
// The kernel's attributes are those of the composite, by name. Without a signature it gets them in the order of their
// names. All devices are those of one driver, so the records of the first are asked.
#include <algorithm>
#include <string>

#include "kernels/launch/launch_plan.h"
#include "kernels/registry/kernel_registry.h"
#include "kernels/spec/signature.h"
#include "lowering/operators/kernel_call.h"
#include "program/ir/launch_frame.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream_table.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// Why the kernel's signature does not take the frame, or gives something else than the composite; empty if it does.
std::string signature_refusal(const mydev_kernel& kernel, const mydev_frame& frame) {
  const CompiledSignature* signature = compiled_signature(kernel);
  if (signature == nullptr) return "";
  for (uint32_t i = 0; i < signature->num_attributes; ++i) {
    if (frame.attributes[i].kind != signature->attributes[i]->value.kind) {
      return std::string("attribute '") + frame.attributes[i].name + "' is of another kind";
    }
  }
  check_operands(kernel, frame);
  if (num_outputs(*signature, frame.num_inputs) != frame.num_outputs) return "it has other results";
  std::vector<mydev_shape> shapes(frame.num_outputs);
  infer_results(kernel, frame, shapes);
  for (uint32_t i = 0; i < frame.num_outputs; ++i) {
    const mydev_buffer& result = frame.buffers[i];
    const mydev_shape& shape = shapes[i];
    if (result.dtype != shape.dtype ||
        !std::equal(result.sizes, result.sizes + result.rank, shape.sizes, shape.sizes + shape.rank)) {
      return "result " + std::to_string(i) + " has another dtype or other sizes";
    }
  }
  for (uint32_t i = 0; signature->is_broadcast() && i < frame.num_inputs; ++i) {
    const mydev_buffer &result = frame.buffers[0], &operand = frame.buffers[frame.num_outputs + i];
    if (!std::equal(operand.sizes, operand.sizes + operand.rank, result.sizes, result.sizes + result.rank)) {
      return "operand " + std::to_string(i) + " is broadcast";
    }
  }
  return "";
}

// Adds the launch. Returns why it cannot be; empty if it was added.
std::string launch(Frame& frame, const Operation& op, const Launchable& kernel, const mydev_kernel& record) {
  const CallAttributes attributes(op, op.find("composite_attributes"));
  KernelCall call = kernel_call(frame, op, record, attributes.absent());
  program::Step step;
  step.name = record.name;
  step.results = std::move(call.results);
  step.operands = std::move(call.operands);
  step.attributes = program::Attributes(attributes.of(record));
  program::LaunchFrame made(step);
  std::string refusal = signature_refusal(record, made.frame());
  if (refusal.empty()) refusal = refusal_of(kernel, made.frame(), default_stream(0));
  if (!refusal.empty()) return refusal;
  frame.emit.launch(record.name, std::move(step.results), std::move(step.operands), step.attributes.get());
  set_results(frame, op, call.tensors);
  return "";
}

}  // namespace

bool lower_composite(Frame& frame, const Operation& op) {
  const std::string& name = op.string("name");
  const Launchable* kernel = is_builtin_name(name) ? nullptr : resolve_step(device(0), name.c_str());
  if (kernel == nullptr) return false;
  // The driver's own record says nothing of attributes and strides.
  mydev_kernel unknown{};
  unknown.struct_size = sizeof unknown;
  unknown.name = kernel->name;
  const mydev_kernel* registered = find_kernel(name);
  std::string refusal;
  try {
    const RaiserBypass bypass;
    refusal = launch(frame, op, *kernel, registered != nullptr ? *registered : unknown);
  } catch (const Error& error) {
    refusal = error.what();
  }
  if (refusal.empty()) return true;
  log(MYDEV_LOG_DEBUG, ("composite '" + name + "' is inlined, since its kernel does not take it: " + refusal).c_str());
  return false;
}

}  // namespace mydev::lowering

// The plans of fused optimizers: a launch for each tensor of their lists.
#include <cmath>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/kernels/network_kernels.h"
#include "device_kernels/templates/texts.h"
#include "device_kernels/text/template_kernel.h"

namespace mydev::device_kernels {

namespace {

// The types of what may lie in memory, and whether it does.
void choose_options(TemplateUse& use, const BoundFrame& frame) {
  const BoundOperand *rate = frame.find("rate"), *scale = frame.find("grad_scale"), *stop = frame.find("found_inf");
  const auto type = [](const BoundOperand* operand) { return operand->is_absent() ? MYDEV_F32 : operand->dtype; };
  use.type('L', type(rate)).type('G', type(scale)).type('F', type(stop));
  use.choose("RATE", rate->is_absent() ? 0 : 1).choose("SCALE", scale->is_absent() ? 0 : 1);
  use.choose("STOP", stop->is_absent() ? 0 : 1).choose("MAXIMIZE", frame.integer("maximize"));
}

}  // namespace

Work plan_fused_sgd(const Request& request) {
  const KernelContract& contract = contract_of(request);
  Work work;
  for (size_t i = 0; i < BoundFrame::list_length(contract, request.frame); ++i) {
    const BoundFrame frame(contract, request.frame, i);
    const BoundOperand *param = frame.find("params"), *velocity = frame.find("momentum_buffers");
    const int64_t n = count_of(frame.buffer(*param));
    if (n == 0) continue;
    const bool moves = frame.number("momentum") != 0;
    TemplateUse use(request, kFusedSgdText, "fused_sgd");
    use.type('T', param->dtype);
    choose_options(use, frame);
    use.choose("MOVES", moves ? 1 : 0).choose("FIRST", frame.integer("first_step"));
    use.choose("NESTEROV", frame.integer("nesterov"));
    Call call = use.call({3, 0, 3, "icccc"}, rows_of(request, 1, n, request.language.elements));
    call.give(Call::Memory{param->buffer}).give(memory_or(velocity, param->buffer));
    call.give(Call::Memory{frame.find("grads")->buffer});
    for (const char* name : {"rate", "grad_scale", "found_inf"}) call.give(memory_or(frame.find(name), param->buffer));
    call.give(n);
    use.give_number(call, frame.number("lr"));
    use.give_number(call, frame.number("weight_decay"));
    use.give_number(call, frame.number("momentum"));
    use.give_number(call, 1 - frame.number("dampening"));
    work.calls.push_back(std::move(call));
  }
  return work;
}

Work plan_fused_adam(const Request& request) {
  const KernelContract& contract = contract_of(request);
  Work work;
  for (size_t i = 0; i < BoundFrame::list_length(contract, request.frame); ++i) {
    const BoundFrame frame(contract, request.frame, i);
    const BoundOperand *param = frame.find("params"), *largest = frame.find("max_exp_avg_sqs");
    const int64_t n = count_of(frame.buffer(*param));
    if (n == 0) continue;
    TemplateUse use(request, kFusedAdamText, "fused_adam");
    use.type('T', param->dtype);
    choose_options(use, frame);
    use.choose("LARGEST", largest->is_absent() ? 0 : 1).choose("DECOUPLED", frame.integer("decoupled"));
    Call call = use.call({5, 0, 4, "icccccccc"}, rows_of(request, 1, n, request.language.elements));
    for (const char* name : {"params", "exp_avgs", "exp_avg_sqs"}) call.give(Call::Memory{frame.find(name)->buffer});
    call.give(memory_or(largest, param->buffer)).give(Call::Memory{frame.find("grads")->buffer});
    for (const char* name : {"rate", "grad_scale", "found_inf"}) call.give(memory_or(frame.find(name), param->buffer));
    call.give(Call::Memory{frame.find("steps")->buffer}).give(n);
    const double beta1 = frame.number("beta1"), beta2 = frame.number("beta2");
    for (const double number : {frame.number("lr"), 1 - beta1, std::log(beta1), beta2, 1 - beta2, std::log(beta2),
                                frame.number("weight_decay"), frame.number("eps")}) {
      use.give_number(call, number);
    }
    work.calls.push_back(std::move(call));
  }
  return work;
}

}  // namespace mydev::device_kernels

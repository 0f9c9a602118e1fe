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
  const auto type = [&](const char* name) { return frame.has(name) ? frame.find(name)->dtype : MYDEV_F32; };
  use.type('L', type("rate")).type('G', type("grad_scale")).type('F', type("found_inf"));
  use.choose("RATE", frame.has("rate")).choose("SCALE", frame.has("grad_scale")).choose("STOP", frame.has("found_inf"));
  use.choose("MAXIMIZE", frame.integer("maximize"));
}

}  // namespace

Work plan_fused_sgd(const Request& request) {
  const KernelContract& contract = contract_of(request);
  Work work;
  for (size_t i = 0; i < BoundFrame::list_length(contract, request.frame); ++i) {
    const BoundFrame frame(contract, request.frame, i);
    const BoundOperand* param = frame.find("params");
    const int64_t n = count_of(frame.buffer(*param));
    if (n == 0) continue;
    TemplateUse use(request, kFusedSgdText, "fused_sgd");
    use.type('T', param->dtype);
    choose_options(use, frame);
    use.choose("MOVES", frame.number("momentum") != 0).choose("FIRST", frame.integer("first_step"));
    use.choose("NESTEROV", frame.integer("nesterov"));
    Call& call = work.calls.emplace_back(use.call(frame, rows_of(request, 1, n, request.language.elements))).give(n);
    for (const char* name : {"lr", "weight_decay", "momentum"}) use.give_number(call, frame.number(name));
    use.give_number(call, 1 - frame.number("dampening"));
  }
  return work;
}

Work plan_fused_adam(const Request& request) {
  const KernelContract& contract = contract_of(request);
  Work work;
  for (size_t i = 0; i < BoundFrame::list_length(contract, request.frame); ++i) {
    const BoundFrame frame(contract, request.frame, i);
    const BoundOperand* param = frame.find("params");
    const int64_t n = count_of(frame.buffer(*param));
    if (n == 0) continue;
    TemplateUse use(request, kFusedAdamText, "fused_adam");
    use.type('T', param->dtype);
    choose_options(use, frame);
    use.choose("LARGEST", frame.has("max_exp_avg_sqs")).choose("DECOUPLED", frame.integer("decoupled"));
    Call& call = work.calls.emplace_back(use.call(frame, rows_of(request, 1, n, request.language.elements))).give(n);
    const double beta1 = frame.number("beta1"), beta2 = frame.number("beta2");
    for (const double number : {frame.number("lr"), 1 - beta1, std::log(beta1), beta2, 1 - beta2, std::log(beta2),
                                frame.number("weight_decay"), frame.number("eps")}) {
      use.give_number(call, number);
    }
  }
  return work;
}

}  // namespace mydev::device_kernels

// Kernel group fused: `mydev.fused` and `mydev.small_steps`, whose bodies are data (program/transform/fused_form.h,
// small_steps.h). Their plans read them once.
#include <memory>

#include "host_kernels/builtin_kernels.h"
#include "host_kernels/fused/fused_tiles.h"
#include "host_kernels/fused/small_program.h"

namespace mydev::kernels {

namespace {

// Makes a decision of the frame's body, or says why there is none.
template <typename Body>
mydev_code plan(const mydev_frame* frame, mydev_plan* out) {
  Refusal why;
  std::unique_ptr<const Body> body = Body::make(*frame, why);
  if (body == nullptr) {
    frame->host->set_error(frame, why.text.c_str());
    return why.code;
  }
  out->scratch_bytes = body->scratch_bytes();
  out->decision = const_cast<Body*>(body.release());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  out->release = [](void* decision) { delete static_cast<const Body*>(decision); };
  return MYDEV_OK;
}

template <typename Body>
mydev_code run(const mydev_frame* frame) {
  return static_cast<const Body*>(frame->decision)->run(*frame);
}

constexpr mydev_kernel kFusedRecords[] = {
    {.struct_size = sizeof(mydev_kernel),
     .name = "mydev.fused",
     .entry = run<FusedTiles>,
     .doc = "launches of other kernels, tile by tile; the body is attributes",
     .plan = plan<FusedTiles>},
    {.struct_size = sizeof(mydev_kernel),
     .name = "mydev.small_steps",
     .entry = run<SmallProgram>,
     .doc = "launches of other kernels over a few elements, with loops and conditions; the body is attributes",
     .plan = plan<SmallProgram>}};

}  // namespace

std::span<const mydev_kernel> fused() {
  return kFusedRecords;
}

}  // namespace mydev::kernels

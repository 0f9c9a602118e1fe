// Kernel group fused: `mydev.fused`, whose body is data (program/transform/fused_form.h). Its plan makes tiles of it
// once.
#include <memory>

#include "host_kernels/builtin_kernels.h"
#include "host_kernels/fused/fused_tiles.h"

namespace mydev::kernels {

namespace {

mydev_code plan(const mydev_frame* frame, mydev_plan* out) {
  FusedTiles::Refusal why;
  std::unique_ptr<const FusedTiles> tiles = FusedTiles::make(*frame, why);
  if (tiles == nullptr) {
    frame->host->set_error(frame, why.text.c_str());
    return why.code;
  }
  out->decision = const_cast<FusedTiles*>(tiles.release());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  out->release = [](void* decision) { delete static_cast<const FusedTiles*>(decision); };
  return MYDEV_OK;
}

mydev_code run(const mydev_frame* frame) {
  return static_cast<const FusedTiles*>(frame->decision)->run(*frame);
}

constexpr mydev_kernel kFusedRecords[] = {{.struct_size = sizeof(mydev_kernel),
                                           .name = "mydev.fused",
                                           .entry = run,
                                           .doc = "launches of other kernels, tile by tile; the body is attributes",
                                           .plan = plan}};

}  // namespace

std::span<const mydev_kernel> fused() {
  return kFusedRecords;
}

}  // namespace mydev::kernels

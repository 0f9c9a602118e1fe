#include "distributed/stages.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

StreamScope::StreamScope(Stream& stream)
    : device_(exchange_current_device(stream.device().index)), previous_(exchange_current_stream(stream)) {}

StreamScope::~StreamScope() {
  exchange_current_stream(previous_);
  exchange_current_device(device_);
}

bool Stages::is_direct() const {
  return stages_.size() == 1 && stages_.front().works.size() == 1 && !stages_.front().operands.has_end();
}

void Stages::end(Stage& stage) const {
  const StreamScope scope(copies_);
  stage.operands.end();
}

void Stages::keep_open(const std::shared_ptr<HostAccess>& access) const {
  if (access == nullptr) return;
  for (const Stage& stage : stages_) {
    for (const EngineWork& work : stage.works) work->getFuture()->addCallback([access](c10::ivalue::Future&) {});
  }
}

}  // namespace mydev

#include "program/run/constant_pool.h"

namespace mydev::program {

void ConstantPool::add(const Program& program) {
  for (SlotIndex index = 0; index < program.slots().size(); ++index) {
    const Slot& slot = program.slots()[index];
    if (slot.kind != SlotKind::kConstant) continue;
    const uint64_t offset = (bytes_.size() + alignment_ - 1) / alignment_ * alignment_;
    if (!offsets_.emplace(std::pair{&program, index}, offset).second) return;  // it is called from elsewhere, too
    bytes_.resize(offset);
    const std::span<const std::byte> data = slot.data_of(device_);
    bytes_.insert(bytes_.end(), data.begin(), data.end());
  }
}

}  // namespace mydev::program

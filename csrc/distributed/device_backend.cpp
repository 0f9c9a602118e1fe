// The code that all collectives of a group share, and transfers between two ranks.
#include "distributed/device_backend.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "aten/core/device_type.h"
#include "distributed/captured_work.h"
#include "distributed/coalesced_work.h"
#include "distributed/operand_checks.h"
#include "runtime/stream/capture.h"
#include "runtime/stream/event.h"
#include "runtime/stream/staging_stream.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

DeviceBackend::DeviceBackend(EngineFactory factory, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                             OptionsPtr options)
    : Backend(rank, size),
      factory_(std::move(factory)),
      options_(std::move(options)),
      engine_(factory_(store, rank, size, *options_)),
      self_transfers_(rank) {}

DeviceBackend::Engine DeviceBackend::split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                           const OptionsPtr& options) {
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  if (place == ranks.end()) return nullptr;
  auto part_store = c10::make_intrusive<c10d::PrefixStore>(options->group_name + "/", store);
  return merge(part_store, options, static_cast<int>(place - ranks.begin()), static_cast<int>(ranks.size()));
}

DeviceBackend::Engine DeviceBackend::merge(const c10::intrusive_ptr<c10d::Store>& store, const OptionsPtr& options,
                                           const int& rank, const int& size) {
  return c10::make_intrusive<DeviceBackend>(factory_, store, rank, size, options);
}

// --- starting --------------------------------------------------------------------------------------------------------

DeviceBackend::WorkPtr DeviceBackend::start(c10d::OpType type, const char* name, int device, const Tensors& outputs,
                                            const Tensors& inputs, Issue issue) {
  Stream& stream = current_stream(device);
  if (stream.capture() != nullptr) return capture(type, name, stream, outputs, inputs, std::move(issue));
  Stream& copies = stream.asynchronous() ? staging_stream(device) : stream;
  at::RecordFunction event(at::RecordScope::USER_SCOPE);
  if (event.isActive()) event.before(options_->backend + ":" + name);
  const Tensors written = held(outputs);
  auto work = c10::make_intrusive<DeviceWork>(DeviceWork::Label{name, rank_, size_}, type, copies, written, hooks_);
  const auto issue_work = [issue = std::move(issue), written, read = held(inputs)](Stages& stages) {
    issue(stages, written, read);
  };
  keep_for_abort(work);
  if (stream.asynchronous()) {
    auto reached = std::make_unique<Event>(device, /*timing=*/false);
    reached->record(stream);
    issue_thread_.post({.after = std::move(reached),
                        .issue = [work, issue_work] { work->issue_later(issue_work); },
                        .drop = [work] { work->fail(DeviceWork::kAborted); }});
  } else {
    work->issue_now(issue_work);
  }
  if (c10d::isP2POp(type)) keep_transfer(work);
  const std::lock_guard lock(mutex_);
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

DeviceBackend::WorkPtr DeviceBackend::capture(c10d::OpType type, const char* name, Stream& stream,
                                              const Tensors& outputs, const Tensors& inputs, Issue issue) {
  // The graph may outlive the group. It must not keep it: a group ends when its owner says so.
  const c10::weak_intrusive_ptr<DeviceBackend> group(c10::intrusive_ptr<DeviceBackend>::reclaim_copy(this));
  auto reissue = [=, issue = std::move(issue)](const Tensors& written, const Tensors& read) -> WorkPtr {
    const auto backend = group.lock();
    TORCH_CHECK_WITH(DistBackendError, backend, name,
                     ": the process group of this graph is gone; capture the graph anew for another group");
    return backend->start(type, name, current_device(), written, read, issue);
  };
  WorkPtr work = c10::make_intrusive<CapturedWork>(rank_, type, name, stream, outputs, inputs, std::move(reissue));
  const std::lock_guard lock(mutex_);
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

// A transfer goes on when its Work is dropped, as with NCCL: this list holds it until a later transfer finds it
// completed.
void DeviceBackend::keep_transfer(const c10::intrusive_ptr<DeviceWork>& transfer) {
  const std::lock_guard lock(mutex_);
  transfers_.remove_if([](const auto& work) { return work.use_count() == 1 && work->isCompleted(); });
  transfers_.push_back(transfer);
}

void DeviceBackend::startCoalescing() {
  const std::lock_guard lock(mutex_);
  coalescing_ = true;
  coalesced_.clear();
}

DeviceBackend::WorkPtr DeviceBackend::endCoalescing() {
  const std::lock_guard lock(mutex_);
  coalescing_ = false;
  if (coalesced_.empty()) return nullptr;
  return c10::make_intrusive<CoalescedWork>(rank_, torch_device(current_device()), std::exchange(coalesced_, {}));
}

// --- ending ----------------------------------------------------------------------------------------------------------

void DeviceBackend::abort() {
  issue_thread_.drop_all();
  std::vector<c10::weak_intrusive_ptr<DeviceWork>> works;
  std::list<c10::intrusive_ptr<DeviceWork>> transfers;
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    works.swap(works_);
    transfers.swap(transfers_);
  }
  for (const auto& known : works) {
    if (const auto work = known.lock()) work->abort();
  }
  engine_->abort();
}

DeviceBackend::~DeviceBackend() {
  // An engine ends when its works have ended. After an abort, nobody should wait for that.
  if (aborted_) std::thread([engine = std::move(engine_)]() mutable { engine.reset(); }).detach();
}

// Called before the work is issued, so that an abort from another thread finds it.
void DeviceBackend::keep_for_abort(const c10::intrusive_ptr<DeviceWork>& work) {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK_WITH(DistBackendError, !aborted_, work->description(), ": ", DeviceWork::kAborted);
  if (works_.size() == works_.capacity()) {
    std::erase_if(works_, [](const auto& other) { return other.use_count() == 0; });
    works_.reserve(std::max<size_t>(64, 2 * works_.size()));
  }
  works_.emplace_back(work);
}

// --- transfers -------------------------------------------------------------------------------------------------------

DeviceBackend::WorkPtr DeviceBackend::send(Tensors& tensors, int destination, int tag) {
  const int device = only_tensor("send", tensors).get_device();
  const auto issue = [=, this](Stages& stages, const Tensors& /*outputs*/, const Tensors& inputs) {
    Tensors operand{stages.add().read(inputs[0])};
    stages.start(destination == rank_ ? EngineWork(self_transfers_.send(operand[0], tag, options_->timeout))
                                      : engine_->send(operand, destination, tag));
  };
  return start(c10d::OpType::SEND, "send", device, {}, tensors, issue);
}

DeviceBackend::WorkPtr DeviceBackend::recv(Tensors& tensors, int source, int tag) {
  const int device = only_tensor("recv", tensors).get_device();
  const auto issue = [=, this](Stages& stages, const Tensors& outputs, const Tensors& /*inputs*/) {
    Tensors operand{stages.add().write(outputs[0])};
    stages.start(source == rank_ ? EngineWork(self_transfers_.recv(operand[0], tag, options_->timeout))
                                 : engine_->recv(operand, source, tag));
  };
  return start(c10d::OpType::RECV, "recv", device, tensors, {}, issue);
}

DeviceBackend::WorkPtr DeviceBackend::recvAnysource(Tensors& tensors, int tag) {
  const int device = only_tensor("recv", tensors).get_device();
  if (Stream& stream = current_stream(device); stream.capture() != nullptr) {
    raise_not_captured(stream, "a receive from any rank, whose rank is asked for,");
  }
  const auto issue = [=, this](Stages& stages, const Tensors& outputs, const Tensors& /*inputs*/) {
    Tensors operand{stages.add().write(outputs[0])};
    stages.start(engine_->recvAnysource(operand, tag));
  };
  return start(c10d::OpType::RECVANYSOURCE, "recv", device, tensors, {}, issue);
}

// --- barriers --------------------------------------------------------------------------------------------------------

DeviceBackend::WorkPtr DeviceBackend::barrier(const c10d::BarrierOptions& options) {
  const int device = options.device_ids.empty() ? current_device() : static_cast<int>(options.device_ids[0]);
  const auto issue = [=, this](Stages& stages, const Tensors& /*outputs*/, const Tensors& /*inputs*/) {
    stages.add();
    stages.start(engine_->barrier(options));
  };
  return start(c10d::OpType::BARRIER, "barrier", device, {}, {}, issue);
}

void DeviceBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  synchronize_device(current_device_object());
  engine_->monitoredBarrier(options, wait_all_ranks);
}

}  // namespace mydev

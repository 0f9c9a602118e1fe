#include "runtime/validation/completions.h"

#include <algorithm>
#include <utility>

#include "runtime/validation/finding.h"

namespace mydev::validation {

namespace {

constexpr size_t kMostPastCompletions = 256;

}  // namespace

AcceptedFrame& Completions::add(mydev_frame* frame, AcceptedFrame entry) {
  std::erase_if(past_, [frame](const auto& past) { return past.first == frame; });  // memory that is used again
  AcceptedFrame& added = frames_.insert_or_assign(frame, std::move(entry)).first->second;
  in_order_[{added.stream, added.began}] = &added;
  return added;
}

AcceptedFrame* Completions::find(const mydev_frame* frame) {
  const auto found = frames_.find(frame);
  return found == frames_.end() ? nullptr : &found->second;
}

void Completions::remove(const mydev_frame* frame) {
  const auto node = frames_.extract(frame);
  if (node.empty()) return;
  in_order_.erase({node.mapped().stream, node.mapped().began});
  past_.emplace_back(frame, node.mapped().what);
  if (past_.size() > kMostPastCompletions) past_.pop_front();
}

std::string Completions::wrong_order(const AcceptedFrame& entry) const {
  for (const auto& call : entry.point.calls) {
    if (!call->returned) {
      return text("the driver completed ", *entry.what,
                  " while a host call that its stream was given before had not returned; complete a frame when its "
                  "work is done");
    }
  }
  for (auto other = in_order_.lower_bound({entry.stream, 0});
       other != in_order_.end() && other->first < std::pair(entry.stream, entry.began); ++other) {
    const AcceptedFrame& earlier = *other->second;
    if (earlier.accepted == 0 || earlier.accepted > entry.began || earlier.reported) continue;
    return text("the driver completed ", *entry.what, " before ", *earlier.what,
                ", which was given to the same stream earlier; complete frames in the order of their stream");
  }
  return "";
}

std::string Completions::unknown(const mydev_frame* frame) const {
  const auto past = std::find_if(past_.rbegin(), past_.rend(), [&](const auto& entry) { return entry.first == frame; });
  if (past != past_.rend()) {
    return text("the driver completed ", *past->second, " twice; the second is ignored; complete each frame once");
  }
  return text("the driver completed the frame ", static_cast<const void*>(frame),
              ", which it does not own: complete only frames of launches that it accepted for later");
}

std::optional<std::string> Completions::overdue(mydev_stream stream, uint64_t time) {
  for (auto& [frame, entry] : frames_) {
    if (stream != nullptr && entry.stream != stream) continue;
    if (entry.accepted == 0 || entry.accepted > time || std::exchange(entry.reported, true)) continue;
    return text("the driver has not completed ", *entry.what,
                ", though the work of its stream is finished; call host->complete for each frame that it accepted");
  }
  return std::nullopt;
}

}  // namespace mydev::validation

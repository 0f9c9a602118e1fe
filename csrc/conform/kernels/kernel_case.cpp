#include "conform/kernels/kernel_case.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "conform/kernels/contract_frame.h"
#include "conform/kernels/expected.h"
#include "conform/kernels/launched_frame.h"
#include "kernels/registry/kernel_registry.h"
#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"
#include "runtime/stream/stream_table.h"

namespace mydev::conform {

namespace {

constexpr size_t kMostMessages = 8;  // of wrong frames; the others are counted
constexpr size_t kMostReasons = 12;  // of each kind

class KernelCase {
 public:
  KernelCase(const KernelContract& contract, const Launchable& kernel, Device& device, Checks& checks)
      : contract_(contract),
        kernel_(kernel),
        stream_(default_stream(device.index)),
        reference_(host_kernel(contract)),
        checks_(checks),
        refusal_prefix_(contract.name + ": " + kernel.candidates.front().owner + " ") {}

  void run() {
    for_each_frame(contract_, checks_, [this](ContractFrame& frame) { try_frame(frame); });
    report();
  }

 private:
  using Reasons = std::map<std::string, size_t>;
  struct Counts {
    size_t passed = 0, declined = 0, wrong = 0, not_compared = 0;
  };

  // Returns nullptr if the library of the host's kernels is not there, or has no such kernel.
  static const mydev_kernel* host_kernel(const KernelContract& contract) {
    try {
      return find_kernel(contract.name);
    } catch (const Error&) {
      return nullptr;
    }
  }

  void try_frame(ContractFrame& frame) {
    Counts& counts = by_dtype_[frame.dtypes().empty() ? "any" : dtype_name(frame.dtypes().front())];
    const Expected expected = expected_results(frame, reference_);
    if (!expected.unknown.empty()) {
      ++unknown_[expected.unknown];
      ++counts.not_compared;
      return;
    }
    checks_.at(frame.text());
    const LaunchedFrame launched = launch_frame(kernel_, frame, stream_);
    if (launched.end == LaunchedFrame::End::kDeclined) {
      ++declined_[reason_of(launched.why)];
      ++counts.declined;
      return;
    }
    const bool done = launched.end == LaunchedFrame::End::kDone;
    const std::string wrong = done ? mismatch(frame, launched, expected) : "it fails: " + launched.why;
    ++(wrong.empty() ? counts.passed : counts.wrong);
    if (wrong.empty()) {
      ++passed_;
    } else if (++wrong_ <= kMostMessages) {
      const mydev_kernel named{.struct_size = sizeof(mydev_kernel), .name = contract_.name.c_str()};
      checks_.fail(frame.text() + ": " + wrong + ", in " + describe_frame(named, frame.prepare_on_host()));
    }
  }

  // Returns the part of the reason that says what the record takes, without the operand that it did not take: "takes
  // f32".
  std::string reason_of(const std::string& why) const {
    std::string reason = why.starts_with(refusal_prefix_) ? why.substr(refusal_prefix_.size()) : why;
    for (const char* place : {", and result ", ", and operand "}) reason = reason.substr(0, reason.find(place));
    return reason;
  }

  static size_t sum(const Reasons& reasons) {
    size_t total = 0;
    for (const auto& [reason, count] : reasons) total += count;
    return total;
  }
  // The most frequent first.
  static std::vector<std::string> texts(const Reasons& reasons) {
    std::vector<std::pair<size_t, std::string>> sorted;
    for (const auto& [reason, count] : reasons) sorted.emplace_back(count, reason);
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::string> found;
    for (const auto& [count, reason] : sorted) {
      if (found.size() == kMostReasons) break;
      found.push_back(std::to_string(count) + ": " + reason);
    }
    return found;
  }

  // "f32 10 54 0 0": passed, declined, wrong, not compared.
  std::vector<std::string> texts_by_dtype() const {
    std::vector<std::string> found;
    for (const auto& [dtype, counts] : by_dtype_) {
      std::string text = dtype;
      for (const size_t count : {counts.passed, counts.declined, counts.wrong, counts.not_compared})
        text += " " + std::to_string(count);
      found.push_back(std::move(text));
    }
    return found;
  }

  void report() {
    if (wrong_ > kMostMessages) checks_.fail("and " + std::to_string(wrong_ - kMostMessages) + " more");
    checks_.report("passed", static_cast<double>(passed_));
    checks_.report("declined", static_cast<double>(sum(declined_)));
    checks_.report("wrong", static_cast<double>(wrong_));
    checks_.report("not_compared", static_cast<double>(sum(unknown_)));
    checks_.report("reasons_declined", texts(declined_));
    checks_.report("reasons_not_compared", texts(unknown_));
    checks_.report("by_dtype", texts_by_dtype());
    if (passed_ + wrong_ != 0) return;
    checks_.skip(declined_.empty() ? "nothing could be compared" : "it declines all that its contract allows");
  }

  const KernelContract& contract_;
  const Launchable& kernel_;
  Stream& stream_;
  const mydev_kernel* reference_;
  Checks& checks_;
  std::string refusal_prefix_;
  size_t passed_ = 0, wrong_ = 0;
  Reasons declined_, unknown_;
  std::map<std::string, Counts> by_dtype_;  // by the dtype of the contract's first variable
};

}  // namespace

void check_kernel(const KernelContract& contract, const Launchable& kernel, Device& device, Checks& checks) {
  KernelCase(contract, kernel, device, checks).run();
}

}  // namespace mydev::conform

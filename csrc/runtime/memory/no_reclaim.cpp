#include "runtime/memory/no_reclaim.h"

namespace mydev {

namespace {

constinit thread_local bool reclaiming_forbidden = false;

}  // namespace

NoReclaim::NoReclaim() noexcept {
  reclaiming_forbidden = true;
}

NoReclaim::~NoReclaim() {
  reclaiming_forbidden = false;
}

bool NoReclaim::active() noexcept {
  return reclaiming_forbidden;
}

}  // namespace mydev

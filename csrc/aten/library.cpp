#include "aten/library.h"

#include <c10/core/AutogradState.h>

#include "aten/host/alias.h"
#include "aten/host/fallback.h"
#include "runtime/memory/caching_allocator.h"

namespace mydev {

void initialize_library() {
  register_fallbacks();
  install_host_scope_allocator();
  // A hop to the autograd engine's device thread costs more than a small op; kernels do not wait, so nothing is gained
  // by it. torch.autograd.set_multithreading_enabled(True) brings it back.
  set_thread_cache_created_callback([] { c10::AutogradState::get_tls_state().set_multithreading_enabled(false); });
}

}  // namespace mydev

// The functions of the table: an overload of entry_point() for each struct of arguments. The files of entries define
// them with the macros below.
//
// An entry needs its struct up to one field. A caller whose struct ends before that is refused with the sizes. An entry
// checks for optional fields beyond it with MYDEV_PJRT_HAS (arguments.h).
#pragma once

#include "pjrt/base/arguments.h"
#include "pjrt/c_api/table.h"

// Defines the entry of a function by its body, which follows: it has the arguments as `args`, returns nothing or the
// given result, and may raise. `last` is the last field that it needs.
#define MYDEV_PJRT_ENTRY(name, last) MYDEV_PJRT_ENTRY_WITH(void, name, last)
#define MYDEV_PJRT_ENTRY_WITH(result, name, last)                                        \
  static result run_entry(name##_Args& args);                                            \
  PJRT_Error* entry_point(name##_Args* args) noexcept {                                  \
    return ::mydev::pjrt::guarded([args] {                                               \
      ::mydev::pjrt::check_arguments(#name, args, MYDEV_PJRT_END_OF(name##_Args, last)); \
      return run_entry(*args);                                                           \
    });                                                                                  \
  }                                                                                      \
  static result run_entry(name##_Args& args)

// Defines an entry of one statement; one that gives a field; a text or a list, with its size; bytes, with their owner.
#define MYDEV_PJRT_DO(name, last, ...) \
  MYDEV_PJRT_ENTRY(name, last) {       \
    __VA_ARGS__;                       \
  }
#define MYDEV_PJRT_GIVE(name, field, ...) MYDEV_PJRT_DO(name, field, args.field = __VA_ARGS__)
#define MYDEV_PJRT_GIVE_TEXT(name, field, text) \
  MYDEV_PJRT_DO(name, field##_size, give_text(text, args.field, args.field##_size))
#define MYDEV_PJRT_GIVE_LIST(name, field, list) \
  MYDEV_PJRT_DO(name, num_##field, give_list(list, args.field, args.num_##field))
#define MYDEV_PJRT_GIVE_BYTES(name, owner, bytes) \
  MYDEV_PJRT_DO(                                  \
      name, owner##_deleter,                      \
      give_bytes(bytes, args.serialized_bytes, args.serialized_bytes_size, args.owner, args.owner##_deleter))

namespace mydev::pjrt {

#define MYDEV_PJRT_DECLARE(name) PJRT_Error* entry_point(name##_Args* args) noexcept;
#define MYDEV_PJRT_DECLARE_PROCEDURE(name) void entry_point(name##_Args* args) noexcept;
#define MYDEV_PJRT_SKIP(name)
PJRT_FUNCTIONS(MYDEV_PJRT_DECLARE, MYDEV_PJRT_DECLARE_PROCEDURE, MYDEV_PJRT_SKIP)
#undef MYDEV_PJRT_DECLARE
#undef MYDEV_PJRT_DECLARE_PROCEDURE
#undef MYDEV_PJRT_SKIP

// Extensions are chained; `next` is the one after it.
PJRT_Extension_Base* profiler_extension(PJRT_Extension_Base* next) noexcept;
// The first of them.
PJRT_Extension_Base* extensions() noexcept;

}  // namespace mydev::pjrt

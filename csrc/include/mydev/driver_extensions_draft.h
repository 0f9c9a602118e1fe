/* driver_extensions_draft.h: proposals for extensions. Public C11 header, and no promise: the runtime calls none of
 * these, and checks no table of theirs. A driver that lists one is accepted, as with any name that the runtime does not
 * know. They are here to be tried and discussed, and may change until driver_extensions.h has them. Version rules,
 * errors, threads and order are those of that header.
 */
#ifndef MYDEV_DRIVER_EXTENSIONS_DRAFT_H_
#define MYDEV_DRIVER_EXTENSIONS_DRAFT_H_

#include "mydev/driver_extensions.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- virtual_memory: addresses apart from the memory behind them -------------------------------------------------- */

/* Absent: segments of the allocator do not grow. */

#define MYDEV_VIRTUAL_MEMORY_EXTENSION "virtual_memory"
#define MYDEV_VIRTUAL_MEMORY_VERSION 1

typedef struct mydev_physical_s* mydev_physical; /* memory without an address */

typedef struct mydev_virtual_memory_extension {
  mydev_extension_head head;
  /* Bytes of which addresses and sizes below are multiples. */
  mydev_code (*granularity)(int32_t device, uint64_t* out_bytes);
  mydev_code (*reserve)(int32_t device, uint64_t bytes, void** out_address);
  mydev_code (*release)(int32_t device, void* address, uint64_t bytes); /* nothing is mapped there */
  mydev_code (*physical_create)(int32_t device, uint64_t bytes, mydev_physical* out_physical);
  mydev_code (*physical_destroy)(mydev_physical physical); /* freed once it is mapped nowhere */
  mydev_code (*map)(void* address, mydev_physical physical, uint64_t offset, uint64_t bytes);
  mydev_code (*unmap)(void* address, uint64_t bytes); /* no work that uses it is pending */
  /* Lets `device` use the memory that is mapped there. The device that it was created for may from the start. */
  mydev_code (*allow)(void* address, uint64_t bytes, int32_t device);
} mydev_virtual_memory_extension;

/* --- ipc: memory and events of another process -------------------------------------------------------------------- */

/* Absent: torch.multiprocessing sends tensors of the device only where the driver has UNIFIED_MEMORY. */

#define MYDEV_IPC_EXTENSION "ipc"
#define MYDEV_IPC_VERSION 1

/* Plain bytes, to be sent to another process of the machine. */
typedef struct mydev_ipc_handle {
  uint8_t bytes[64];
} mydev_ipc_handle;

typedef struct mydev_ipc_extension {
  mydev_extension_head head;
  mydev_code (*memory_export)(int32_t device, void* data, mydev_ipc_handle* out_handle); /* data: from memory_alloc */
  /* In another process. The memory lives until its owner has freed it and all have closed it. */
  mydev_code (*memory_open)(int32_t device, const mydev_ipc_handle* handle, void** out_data);
  mydev_code (*memory_close)(int32_t device, void* data);
  /* Optional (both or neither): NULL, the sender waits for its work before it sends. event_destroy ends either. */
  mydev_code (*event_export)(mydev_event event, mydev_ipc_handle* out_handle);
  mydev_code (*event_open)(int32_t device, const mydev_ipc_handle* handle, mydev_event* out_event);
} mydev_ipc_extension;

/* --- memory_spaces: more than one kind of memory on a device ------------------------------------------------------ */

/* Absent: a device has one, that of memory_alloc. */

#define MYDEV_MEMORY_SPACES_EXTENSION "memory_spaces"
#define MYDEV_MEMORY_SPACES_VERSION 1

typedef struct mydev_memory_space {
  size_t struct_size;
  char name[32];           /* "hbm", "sram", "host" ... */
  uint64_t total_memory;   /* bytes */
  uint64_t bandwidth;      /* bytes per second; 0: not known */
  uint32_t alignment;      /* as in mydev_device_properties */
  int32_t host_accessible; /* 1: as MYDEV_CAPABILITY_HOST_ACCESSIBLE says of the whole device */
} mydev_memory_space;

typedef struct mydev_memory_spaces_extension {
  mydev_extension_head head;
  mydev_code (*count)(int32_t device, int32_t* out_count); /* space 0 is that of memory_alloc */
  mydev_code (*describe)(int32_t device, int32_t space, mydev_memory_space* out_space);
  mydev_code (*alloc)(int32_t device, int32_t space, uint64_t bytes, void** out_data); /* freed by memory_free */
  mydev_code (*space_of)(int32_t device, const void* data, int32_t* out_space);
} mydev_memory_spaces_extension;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MYDEV_DRIVER_EXTENSIONS_DRAFT_H_ */

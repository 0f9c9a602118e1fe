// The profiler extension, and the interface of profilers that it points to. jax.profiler asks plugins by it. A profiler
// gives a serialized XSpace.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "pjrt/c_api/base.h"

typedef struct PLUGIN_Profiler PLUGIN_Profiler;
typedef struct PLUGIN_Profiler_Error PLUGIN_Profiler_Error;

PJRT_STRUCT(PLUGIN_Profiler_Error_Destroy_Args, size_t struct_size, void* priv, PLUGIN_Profiler_Error* error);
PJRT_STRUCT(PLUGIN_Profiler_Error_Message_Args, size_t struct_size, void* priv, const PLUGIN_Profiler_Error* error,
            /*out*/ const char* message,  // the error's
            size_t message_size);
PJRT_STRUCT(PLUGIN_Profiler_Error_GetCode_Args, size_t struct_size, void* priv, const PLUGIN_Profiler_Error* error,
            /*out*/ int code);
PJRT_STRUCT(PLUGIN_Profiler_Create_Args, size_t struct_size, const char* options, size_t options_size,
            /*out*/ PLUGIN_Profiler* profiler);
PJRT_STRUCT(PLUGIN_Profiler_Destroy_Args, size_t struct_size, PLUGIN_Profiler* profiler);
PJRT_STRUCT(PLUGIN_Profiler_Start_Args, size_t struct_size, PLUGIN_Profiler* profiler);
PJRT_STRUCT(PLUGIN_Profiler_Stop_Args, size_t struct_size, PLUGIN_Profiler* profiler);
PJRT_STRUCT(PLUGIN_Profiler_CollectData_Args, size_t struct_size, PLUGIN_Profiler* profiler,
            uint8_t* buffer,  // in: NULL, or where to copy to; out: the data, which are the profiler's
            /*out*/ size_t buffer_size_in_bytes);

typedef struct PLUGIN_Profiler_Api {
  size_t struct_size;
  void* priv;
  void (*error_destroy)(PLUGIN_Profiler_Error_Destroy_Args* args);
  void (*error_message)(PLUGIN_Profiler_Error_Message_Args* args);
  PLUGIN_Profiler_Error* (*error_get_code)(PLUGIN_Profiler_Error_GetCode_Args* args);
  PLUGIN_Profiler_Error* (*create)(PLUGIN_Profiler_Create_Args* args);
  PLUGIN_Profiler_Error* (*destroy)(PLUGIN_Profiler_Destroy_Args* args);
  PLUGIN_Profiler_Error* (*start)(PLUGIN_Profiler_Start_Args* args);
  PLUGIN_Profiler_Error* (*stop)(PLUGIN_Profiler_Stop_Args* args);
  PLUGIN_Profiler_Error* (*collect_data)(PLUGIN_Profiler_CollectData_Args* args);
} PLUGIN_Profiler_Api;

typedef struct PJRT_Profiler_Extension {
  PJRT_Extension_Base base;
  PLUGIN_Profiler_Api* profiler_api;
  int64_t traceme_context_id;  // of arguments that a client annotates
} PJRT_Profiler_Extension;

#!/bin/sh
# Checks that libcupti.so exports CUPTI's functions, each with the version that
# programs ask for, and nothing else. Those that tools look up must be among
# them.
set -eu
library=$1 version=$2
export LC_ALL=C
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sort)
others=$(printf '%s\n' "$exported" |
  grep -v "^cupti[A-Z][A-Za-z0-9_]*@@libcupti.so.$version\$" || true)
if [ -n "$others" ]; then
  echo "expected only cupti...@@libcupti.so.$version, saw: $others"
  exit 1
fi
for name in ActivityEnable ActivityDisable ActivityRegisterCallbacks \
            ActivityFlushAll ActivityGetNextRecord \
            ActivityGetNumDroppedRecords ActivitySetAttribute \
            ActivityGetAttribute ActivityPushExternalCorrelationId \
            ActivityPopExternalCorrelationId \
            ActivityRegisterTimestampCallback ActivityFlushPeriod \
            ActivityEnableHWTrace GetTimestamp GetDeviceId GetContextId \
            GetStreamIdEx GetResultString GetErrorMessage GetVersion Finalize \
            Subscribe Unsubscribe EnableCallback EnableDomain GetCallbackName \
            ProfilerInitialize ProfilerHostInitialize PCSamplingEnable \
            RangeProfilerEnable DeviceGetChipName; do
  if ! printf '%s\n' "$exported" | grep -q "^cupti$name@@"; then
    echo "expected cupti$name among the exports, saw none"
    exit 1
  fi
done
readelf -d "$library" | grep -q "soname: \[libcupti.so.$version\]"

#include "read.h"

namespace kumiki {

using rocksdb::FSRandomAccessFile;
using rocksdb::FSReadRequest;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

void finish_read(const FSRandomAccessFile &file, int64_t got, const IOOptions &options,
                 FSReadRequest &request, IODebugContext *debug)
{
	size_t have = got > 0 ? static_cast<size_t>(got) : 0;
	// A direct read of bytes that fill no sector has met the file's end.
	bool ended = file.use_direct_io() && have % file.GetRequiredBufferAlignment() != 0;
	if (have == request.len || ended) {
		request.status = IOStatus::OK();
		request.result = Slice(request.scratch, have);
		return;
	}
	Slice rest;
	request.status = file.Read(request.offset + have, request.len - have, options, &rest,
	                           request.scratch + have, debug);
	request.result = Slice(request.scratch, request.status.ok() ? have + rest.size() : 0);
}

} // namespace kumiki

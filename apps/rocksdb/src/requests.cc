#include "requests.h"

#include <algorithm>
#include <cerrno>

#include "engines.h"

namespace kumiki {

Requests &Requests::of_process()
{
	static Requests *all = new Requests;
	return *all;
}

bool Requests::place(Request &request, long sysnum, std::initializer_list<uint64_t> args)
{
	kumiki_parasc_engine *engine = first_engine();
	std::lock_guard<std::mutex> lock(mutex_);
	unsigned int count = static_cast<unsigned int>(args.size());
	if (!engine || kumiki_parasc_request(engine, sysnum, count, args.begin(), &request.ticket) < 0)
		return false;
	request.outstanding = true;
	placed_.push_back(&request);
	return true;
}

void Requests::await(Request &request)
{
	std::unique_lock<std::mutex> lock(mutex_);
	while (request.outstanding) {
		if (watched_) {
			watcher_left_.wait(lock);
			continue;
		}
		collect();
		if (!request.outstanding)
			return;
		watched_ = true;
		lock.unlock();
		int complete = kumiki_parasc_wait(first_engine(), 1, KUMIKI_PARASC_FOREVER);
		lock.lock();
		watched_ = false;
		// In a child of fork(2), where no answer comes to what the parent has placed.
		if (complete < 1)
			lose();
		watcher_left_.notify_all();
	}
}

void Requests::collect()
{
	auto answered = [](Request *request) {
		int got = kumiki_parasc_collect(first_engine(), request->ticket, &request->result);
		if (got < 0)
			request->result = -EIO;
		request->outstanding = got == 0;
		return got != 0;
	};
	placed_.erase(std::remove_if(placed_.begin(), placed_.end(), answered), placed_.end());
}

void Requests::lose()
{
	for (Request *request : placed_) {
		request->result = -EIO;
		request->outstanding = false;
	}
	placed_.clear();
}

} // namespace kumiki

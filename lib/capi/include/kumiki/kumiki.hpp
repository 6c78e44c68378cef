/*
 * libkumiki for C++17: what owns something gives it back, what fails throws.
 *
 *     #include <kumiki/kumiki.hpp>
 *
 *     kumiki::shadow shadow;
 *     auto [left, right] = shadow.both([&] { return sum(a); }, [&] { return sum(b); });
 *
 *     kumiki::child child = kumiki::command("make").arg("-j8").limit(RLIMIT_AS, 1 << 30).spawn();
 *     return child.wait().code;
 *
 * Everything here is inline and calls the functions of the headers for C, which say what holds: which
 * thread may call, what waits, what errors mean. What is not here is used by these, through get().
 *
 * ERRORS. kumiki::error has the error number, positive, and the sentence of kumiki_last_error(). What a
 * function of the program throws in another thread, or at another place, arrives where it is joined.
 *
 * OWNERS can be moved and not copied. One that was moved from is empty: it may be destroyed, or
 * another one moved into it, and nothing else.
 */
#ifndef KUMIKI_KUMIKI_HPP
#define KUMIKI_KUMIKI_HPP

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <kumiki/error.h>
#include <kumiki/parasc.h>
#include <kumiki/resource.h>
#include <kumiki/shadow.h>
#include <kumiki/spawn.h>

namespace kumiki {

/* What has failed, by its number and in a sentence. */
class error : public std::runtime_error {
public:
	/* Of the call of this thread that has failed last. */
	explicit error(int code)
		: std::runtime_error(kumiki_last_error()), code_(code < 0 ? -code : code)
	{
	}

	/* An errno value, above 0. */
	int code() const noexcept { return code_; }

private:
	int code_;
};

/* What a function for C has returned, if it has not failed. */
inline int checked(int result)
{
	if (result < 0)
		throw error(result);
	return result;
}

namespace detail {

/* posix_spawn's kind of error: a positive number. */
inline void spawned(int result)
{
	if (result != 0)
		throw error(result);
}

/* What a function has returned or thrown, kept for the thread that asked for it. */
template <class Result> struct outcome {
	std::optional<Result> value;
	std::exception_ptr thrown;

	template <class Function> void run(Function &function) noexcept
	{
		try {
			value.emplace(function());
		} catch (...) {
			thrown = std::current_exception();
		}
	}

	Result take()
	{
		if (thrown)
			std::rethrow_exception(std::exchange(thrown, nullptr));
		return std::move(*value);
	}
};

template <> struct outcome<void> {
	std::exception_ptr thrown;

	template <class Function> void run(Function &function) noexcept
	{
		try {
			function();
		} catch (...) {
			thrown = std::current_exception();
		}
	}

	void take()
	{
		if (thrown)
			std::rethrow_exception(std::exchange(thrown, nullptr));
	}
};

template <auto Free> struct freed_by {
	template <class Thing> void operator()(Thing *thing) const noexcept { (void)Free(thing); }
};

/* As the C library widens an argument: an int of -100 is that number in 64 bits, too. */
template <class Arg> std::uint64_t word(Arg arg)
{
	if constexpr (std::is_pointer_v<Arg>)
		return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(arg));
	else
		return static_cast<std::uint64_t>(static_cast<std::int64_t>(arg));
}

inline std::uint64_t nanoseconds(std::chrono::nanoseconds time)
{
	return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

} // namespace detail

/*
 * ---- shadow.h ----
 */

/* A job that the helper of a shadow has; joined at the latest when it goes out of scope. */
template <class Function> class job {
public:
	using result = std::invoke_result_t<Function &>;

	job(kumiki_shadow *shadow, Function function)
		: shadow_(shadow), state_(std::make_unique<state>(std::move(function)))
	{
		checked(kumiki_shadow_fork(shadow_, &state::run, state_.get()));
	}

	job(job &&other) noexcept = default;
	job &operator=(job &&) = delete;

	/* What it throws is lost here: join() before. */
	~job()
	{
		if (state_)
			(void)kumiki_shadow_join(shadow_);
	}

	/* Waits for its end: what the function returns, or throws. Once. */
	result join()
	{
		std::unique_ptr<state> taken = std::move(state_);
		checked(kumiki_shadow_join(shadow_));
		return taken->outcome.take();
	}

	/* Whether join() would not wait. */
	bool is_finished() const { return checked(kumiki_shadow_is_finished(shadow_)) == 1; }

private:
	struct state {
		explicit state(Function f) : function(std::move(f)) {}
		static void run(void *that)
		{
			state *self = static_cast<state *>(that);
			self->outcome.run(self->function);
		}
		Function function;
		detail::outcome<result> outcome;
	};

	kumiki_shadow *shadow_;
	std::unique_ptr<state> state_;
};

/* The calling thread, and a helper beside it. */
class shadow {
public:
	explicit shadow(const kumiki_shadow_options &options = KUMIKI_SHADOW_OPTIONS_INIT)
	{
		kumiki_shadow *made;
		checked(kumiki_shadow_create(&made, &options));
		shadow_.reset(made);
	}

	/* A helper where there is a cpu for one; else jobs run in this thread, when they are joined. */
	static shadow create_or_inline(kumiki_shadow_options options = KUMIKI_SHADOW_OPTIONS_INIT)
	{
		try {
			return shadow(options);
		} catch (const error &refused) {
			if (refused.code() != ENODEV)
				throw;
			options.flags |= KUMIKI_SHADOW_INLINE;
			return shadow(options);
		}
	}

	/* Has the helper call it, at once. One at a time: EBUSY. */
	template <class Function> job<std::decay_t<Function>> fork(Function &&function)
	{
		return job<std::decay_t<Function>>(get(), std::forward<Function>(function));
	}

	/* Calls both at the same time, `ours` here: what they return. Neither may return void. */
	template <class Ours, class Theirs> auto both(Ours &&ours, Theirs &&theirs)
	{
		auto job = fork(std::forward<Theirs>(theirs));
		auto here = ours();
		return std::make_pair(std::move(here), job.join());
	}

	/* memcpy() by both threads. */
	void copy(void *to, const void *from, std::size_t length,
	          kumiki_shadow_copy_method method = KUMIKI_SHADOW_COPY_AUTO)
	{
		checked(kumiki_shadow_copy(get(), to, from, length, method));
	}

	struct kumiki_shadow_info info() const
	{
		struct kumiki_shadow_info info;
		checked(kumiki_shadow_info(get(), &info));
		return info;
	}

	kumiki_shadow *get() const noexcept { return shadow_.get(); }

private:
	std::unique_ptr<kumiki_shadow, detail::freed_by<kumiki_shadow_destroy>> shadow_;
};

/*
 * ---- parasc.h ----
 */

/* A system call with up to six arguments, numbers or pointers. */
template <class... Args> kumiki_parasc_call call(std::uint16_t number, Args... args)
{
	static_assert(sizeof...(Args) <= 6, "a system call has six arguments at most");
	return { number, sizeof...(Args), { detail::word(args)... } };
}

/* Its calls are made by the thread that has made it. */
class requester {
public:
	explicit requester(kumiki_parasc_engine *engine)
	{
		kumiki_parasc_requester *made;
		checked(kumiki_parasc_requester_create(engine, &made));
		requester_.reset(made);
	}

	/* Makes all of them, in any order: what each has returned, or -errno. */
	std::vector<std::int64_t> run(const std::vector<kumiki_parasc_call> &calls)
	{
		std::vector<std::int64_t> values(calls.size());
		checked(kumiki_parasc_run(get(), calls.data(), values.data(), calls.size()));
		return values;
	}

	kumiki_parasc_requester *get() const noexcept { return requester_.get(); }

private:
	std::unique_ptr<kumiki_parasc_requester, detail::freed_by<kumiki_parasc_requester_destroy>> requester_;
};

/* Threads that make system calls for others. It outlives neither them nor their calls: see
 * kumiki_parasc_destroy(). */
class engine {
public:
	explicit engine(const kumiki_parasc_config &config = KUMIKI_PARASC_CONFIG_INIT)
	{
		kumiki_parasc_engine *made;
		checked(kumiki_parasc_create(&made, &config));
		engine_.reset(made);
	}

	kumiki::requester requester() { return kumiki::requester(get()); }

	/* Places a call for any thread: the ticket that collect() takes. */
	std::uint64_t request(const kumiki_parasc_call &call)
	{
		std::uint64_t ticket;
		checked(kumiki_parasc_request(get(), call.sysnum, call.args_num, call.args, &ticket));
		return ticket;
	}

	/* What the call has returned, or -errno; nothing as long as it is not made. */
	std::optional<std::int64_t> collect(std::uint64_t ticket)
	{
		std::int64_t value;
		if (checked(kumiki_parasc_collect(get(), ticket, &value)) == 0)
			return std::nullopt;
		return value;
	}

	/* Waits until so many results are there: how many are. */
	int wait(std::size_t results) { return checked(kumiki_parasc_wait(get(), results, KUMIKI_PARASC_FOREVER)); }

	int wait(std::size_t results, std::chrono::nanoseconds limit)
	{
		return checked(kumiki_parasc_wait(get(), results, detail::nanoseconds(limit)));
	}

	kumiki_parasc_engine *get() const noexcept { return engine_.get(); }

private:
	std::unique_ptr<kumiki_parasc_engine, detail::freed_by<kumiki_parasc_destroy>> engine_;
};

/*
 * ---- spawn.h ----
 */

/* How a child has ended. */
struct ending {
	/* Its exit code; -1 if a signal has ended it. */
	int code;
	/* That signal, or 0. */
	int signal;

	bool well() const noexcept { return code == 0; }
};

/* A child that was started. Whoever does not wait for it leaves it: nothing ends it here. */
class child {
public:
	explicit child(pid_t pid) noexcept : pid_(pid) {}
	child(child &&other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
	child &operator=(child &&other) noexcept
	{
		pid_ = std::exchange(other.pid_, -1);
		return *this;
	}

	pid_t pid() const noexcept { return pid_; }

	/* Waits for its end. Once. */
	ending wait()
	{
		int status;
		pid_t waited;
		do
			waited = waitpid(pid_, &status, 0);
		while (waited < 0 && errno == EINTR);
		if (waited < 0)
			throw std::runtime_error("no child " + std::to_string(pid_) + " to wait for");
		pid_ = -1;
		if (WIFSIGNALED(status))
			return { -1, WTERMSIG(status) };
		return { WEXITSTATUS(status), 0 };
	}

private:
	pid_t pid_;
};

/* A program to start, and how. */
class command {
public:
	/* Without a slash it is searched for in PATH. */
	explicit command(std::string program) : words_{ std::move(program) }
	{
		detail::spawned(kumiki_spawnattr_init(attributes_.get()));
		detail::spawned(kumiki_spawn_file_actions_init(actions_.get()));
	}

	command &arg(std::string word)
	{
		words_.push_back(std::move(word));
		return *this;
	}
	command &args(std::initializer_list<std::string> words)
	{
		words_.insert(words_.end(), words);
		return *this;
	}
	/* Its environment is the caller's, until one is said: then these alone, NAME=VALUE. */
	command &env(std::string variable)
	{
		if (!environment_)
			environment_.emplace();
		environment_->push_back(std::move(variable));
		return *this;
	}
	command &current_dir(const char *path)
	{
		return action(kumiki_spawn_file_actions_addchdir(actions_.get(), path));
	}
	/* The caller's descriptor `fd` is the child's `as`. */
	command &descriptor(int fd, int as)
	{
		return action(kumiki_spawn_file_actions_adddup2(actions_.get(), fd, as));
	}
	command &open(int as, const char *path, int flags, mode_t mode = 0666)
	{
		return action(kumiki_spawn_file_actions_addopen(actions_.get(), as, path, flags, mode));
	}
	/* RLIMIT_..., soft and hard. */
	command &limit(int which, rlim_t most)
	{
		rlimit limit{ most, most };
		return action(kumiki_spawnattr_setlimit(attributes_.get(), which, &limit));
	}
	command &uid(uid_t user) { return action(kumiki_spawnattr_setuid(attributes_.get(), user)); }
	command &gid(gid_t group) { return action(kumiki_spawnattr_setgid(attributes_.get(), group)); }
	command &nice(int nice) { return action(kumiki_spawnattr_setnice(attributes_.get(), nice)); }
	/* A descriptor of a folder of cgroup2. */
	command &cgroup(int folder) { return action(kumiki_spawnattr_setcgroup(attributes_.get(), folder)); }
	command &affinity(std::initializer_list<unsigned int> cpus)
	{
		return action(kumiki_spawnattr_setaffinity(attributes_.get(), cpus.size(), cpus.begin()));
	}
	command &namespaces(std::uint64_t flags)
	{
		return action(kumiki_spawnattr_setnamespaces(attributes_.get(), flags));
	}

	child spawn() const
	{
		std::vector<char *> argv = pointers(words_), envp;
		if (environment_)
			envp = pointers(*environment_);
		pid_t pid;
		detail::spawned(kumiki_spawnp(&pid, words_.front().c_str(), actions_.get(), attributes_.get(),
		                              argv.data(), environment_ ? envp.data() : environ));
		return child(pid);
	}

	/* For what is not here. */
	kumiki_spawnattr_t *attributes() noexcept { return attributes_.get(); }
	kumiki_spawn_file_actions_t *actions() noexcept { return actions_.get(); }

private:
	/* In memory of their own: what holds them can be moved. */
	template <class Thing, auto Destroy> struct owned {
		owned() : thing(new Thing{}) {}
		owned(owned &&) noexcept = default;
		~owned()
		{
			if (thing)
				(void)Destroy(thing.get());
		}
		Thing *get() const noexcept { return thing.get(); }
		std::unique_ptr<Thing> thing;
	};

	command &action(int result)
	{
		detail::spawned(result);
		return *this;
	}

	static std::vector<char *> pointers(const std::vector<std::string> &words)
	{
		std::vector<char *> pointers;
		for (const std::string &word : words)
			pointers.push_back(const_cast<char *>(word.c_str()));
		pointers.push_back(nullptr);
		return pointers;
	}

	std::vector<std::string> words_;
	std::optional<std::vector<std::string>> environment_;
	owned<kumiki_spawnattr_t, kumiki_spawnattr_destroy> attributes_;
	owned<kumiki_spawn_file_actions_t, kumiki_spawn_file_actions_destroy> actions_;
};

/*
 * ---- resource.h ----
 */

class interface;

/* A handle, closed when it goes out of scope. The resource stays. */
class resource {
public:
	explicit resource(kumiki_resource *handle) noexcept : handle_(handle) {}

	std::uint64_t id() const noexcept { return kumiki_resource_id(get()); }

	kumiki_resource *get() const noexcept { return handle_.get(); }

private:
	friend class interface;
	std::unique_ptr<kumiki_resource, detail::freed_by<kumiki_resource_close>> handle_;
};

/* Places on cpus, each with the thread that owns what is there. */
class interface {
public:
	/* On these cpus, or on all that the calling thread may use. */
	explicit interface(std::initializer_list<int> cpus = {}, std::uint32_t flags = 0)
	{
		kumiki_resource_interface *made;
		checked(kumiki_resource_interface_create(&made, cpus.size() ? cpus.begin() : nullptr,
		                                         cpus.size(), flags));
		interface_.reset(made);
	}

	std::vector<std::uint16_t> places() const
	{
		std::vector<std::uint16_t> places;
		int there = checked(kumiki_resource_places(get(), nullptr, 0));
		places.resize(static_cast<std::size_t>(there));
		(void)checked(kumiki_resource_places(get(), places.data(), places.size()));
		return places;
	}

	/* Gives it to a place, whose thread deletes it when the resource is. */
	template <class Object>
	resource object(std::uint16_t place, const char *name, std::unique_ptr<Object> object)
	{
		kumiki_resource *made;
		auto destroy = [](void *that) { delete static_cast<Object *>(that); };
		checked(kumiki_resource_object_create(get(), place, name, object.get(), destroy, &made));
		(void)object.release();
		return resource(made);
	}

	/* Calls function(object) at the place of a resource made by object<Object>(): what it returns. */
	template <class Object, class Function>
	std::invoke_result_t<Function &, Object &> call(const resource &at, Function &&function)
	{
		using result = std::invoke_result_t<Function &, Object &>;
		struct request {
			std::remove_reference_t<Function> &function;
			detail::outcome<result> outcome;
		} request{ function, {} };
		auto run = [](void *object, void *that) {
			auto *asked = static_cast<struct request *>(that);
			auto there = [&]() -> result { return asked->function(*static_cast<Object *>(object)); };
			asked->outcome.run(there);
		};
		checked(kumiki_resource_call(get(), at.get(), run, &request));
		return request.outcome.take();
	}

	/* A handle by name: place/kind/name. */
	resource open(const char *name) const
	{
		kumiki_resource *opened;
		checked(kumiki_resource_open(get(), name, &opened));
		return resource(opened);
	}

	/* Deletes the resource, and closes the handle; a handle stays that could not. */
	void destroy(resource &&handle)
	{
		checked(kumiki_resource_destroy(get(), handle.get()));
		(void)handle.handle_.release();
	}

	kumiki_resource_interface *get() const noexcept { return interface_.get(); }

private:
	std::unique_ptr<kumiki_resource_interface, detail::freed_by<kumiki_resource_interface_destroy>> interface_;
};

} // namespace kumiki

#endif /* KUMIKI_KUMIKI_HPP */

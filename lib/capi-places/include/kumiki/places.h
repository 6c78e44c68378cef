/*
 * Resources of other processes, OS nodes and machines, called by their names: libkumiki-places.
 *
 * A library of its own: libkumiki has nothing of NATS in it. What program parts take and give is JSON here. Each
 * call runs once, or its error says that it has not, or that nobody knows.
 *
 *   struct kumiki_places *places;
 *   struct kumiki_places_call *call;
 *   char *sum;
 *
 *   if (kumiki_places_open(&places, NULL, NULL) < 0 ||
 *       kumiki_places_start_call(places, "web.core1/counter/hits", "add", "1", 0, &call) < 0)
 *           return fprintf(stderr, "%s\n", kumiki_places_last_error());
 *   ... meanwhile ...
 *   if (kumiki_places_call_wait(call, -1, &sum) == 0) {
 *           puts(sum);
 *           kumiki_places_free(sum);
 *   }
 *   kumiki_places_call_end(call);
 *   kumiki_places_close(places);
 *
 * Functions may be called by any thread, of one call or watch by one at a time; not in a child of
 * fork(2), whose parent's connections they are. They return 0 or a negative errno value, with a
 * sentence from kumiki_places_last_error:
 *
 *   -ESRCH         nobody answers at that place: not done
 *   -ENOTCONN      it was not sent, or was only a question that has no answer: not done
 *   -ECONNABORTED  it was sent, and nobody knows whether it was done
 *   -EACCES        the place's allow-list does not have it: not done
 *   -ENOENT        no resource of that name; -EEXIST: there is one already; -ESTALE: it was destroyed
 *   -EAGAIN        the place has too much to do: not done
 *   -EMSGSIZE      too much for one message
 *   -EREMOTEIO     the program part has panicked, or the place refuses it otherwise
 *   -EINVAL        a name, a pattern, JSON, a kind or a program part that is none
 *   -ETIMEDOUT     of waiting: it is still under way
 *   -EIO           else
 */
#ifndef KUMIKI_PLACES_H
#define KUMIKI_PLACES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A client of places. */
struct kumiki_places;
/* Something that was asked of a place. */
struct kumiki_places_call;
/* News of a place. */
struct kumiki_places_watch;

/*
 * A client of this user's places on this machine, or, with the URL of a NATS server, of those behind it;
 * credentials are a file's name or null. Who asks may also stand in the URL (USER:PASSWORD@, TOKEN@) or in the
 * environment (NATS_CREDS, NATS_NKEY, NATS_USER and NATS_PASSWORD, NATS_TOKEN, NATS_CERT and NATS_KEY, NATS_CA). It has a
 * thread.
 */
int kumiki_places_open(struct kumiki_places **places, const char *nats, const char *credentials);
/* Calls and watches of it may live longer. Null is ignored. */
void kumiki_places_close(struct kumiki_places *places);

/*
 * Each starts something and returns at once: to make a resource "place/kind/unique", to call a program part of
 * it, to destroy it, to list a place's resources that match a pattern, and to list places. It is tried
 * for timeout_ms, or ten seconds if that is 0.
 */
int kumiki_places_start_create(struct kumiki_places *places, const char *name, const char *wishes,
			       uint64_t timeout_ms, struct kumiki_places_call **call);
int kumiki_places_start_call(struct kumiki_places *places, const char *name, const char *part,
			     const char *input, uint64_t timeout_ms,
			     struct kumiki_places_call **call);
int kumiki_places_start_destroy(struct kumiki_places *places, const char *name, uint64_t timeout_ms,
				struct kumiki_places_call **call);
int kumiki_places_start_ls(struct kumiki_places *places, const char *place, const char *pattern,
			   uint64_t timeout_ms, struct kumiki_places_call **call);
int kumiki_places_start_places(struct kumiki_places *places, uint64_t timeout_ms,
			       struct kumiki_places_call **call);

/*
 * A program part of one resource, bound: its name is looked up once, and each call is one request, by the resource that
 * it was. Waits until the place has answered, for timeout_ms at most, or ten seconds if that is 0.
 *
 * If the resource has been destroyed or its place started anew, a call says so, -ESTALE or -ENOENT, and was not done; the
 * next one binds anew, to what has the name then. Any threads may call at once.
 */
struct kumiki_places_bound;
int kumiki_places_bind(struct kumiki_places *places, const char *name, const char *part,
		       uint64_t timeout_ms, struct kumiki_places_bound **bound);
/* Calls it and waits for what it gives, a JSON text, to be freed; json may be null. */
int kumiki_places_bound_call(struct kumiki_places_bound *bound, const char *input,
			     uint64_t timeout_ms, char **json);
/* Starts a call of it, and returns at once. The call may live longer. */
int kumiki_places_start_bound(struct kumiki_places_bound *bound, const char *input,
			      uint64_t timeout_ms, struct kumiki_places_call **call);
/* Null is ignored. */
void kumiki_places_bound_end(struct kumiki_places_bound *bound);

/* A descriptor that poll(2) says is readable once it has ended. It is the call's: only to be polled. */
int kumiki_places_call_fd(const struct kumiki_places_call *call);
/*
 * Waits for its end, for timeout_ms at most, without limit if that is negative. What it gives is a JSON
 * text, to be freed; json may be null. May be asked again: the outcome stays.
 */
int kumiki_places_call_wait(struct kumiki_places_call *call, int64_t timeout_ms, char **json);
/*
 * Gives the call up and frees it. 0 if it had ended; -ECANCELED if not: then it is tried no more, and
 * nobody knows whether it was done. Null is ignored.
 */
int kumiki_places_call_end(struct kumiki_places_call *call);

/*
 * Watches names of a place that match a pattern, from now on, and the place itself. Waits until the place
 * has answered, for timeout_ms at most, or ten seconds if that is 0.
 */
int kumiki_places_watch(struct kumiki_places *places, const char *place, const char *pattern,
			uint64_t timeout_ms, struct kumiki_places_watch **watch);
/* A descriptor that is readable while there are news. */
int kumiki_places_watch_fd(const struct kumiki_places_watch *watch);
/*
 * The next news, a JSON object: its "news" is "here" (with "life"), "created" or "destroyed" (with "name" and
 * "id"), "missed" (some changes were: list anew), "gone" or "unheard". Waits as kumiki_places_call_wait does.
 */
int kumiki_places_watch_next(struct kumiki_places_watch *watch, int64_t timeout_ms, char **json);
/* Null is ignored. */
void kumiki_places_watch_end(struct kumiki_places_watch *watch);

/* Frees a text. Null is ignored. */
void kumiki_places_free(char *json);

/*
 * What the last call of this thread that failed had to say: "" if none has. The next one that fails writes
 * another text.
 */
const char *kumiki_places_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* KUMIKI_PLACES_H */

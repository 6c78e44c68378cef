/*
 * What all headers of Kumiki share: the sentence to an error. Each of them includes this.
 */
#ifndef KUMIKI_ERROR_H
#define KUMIKI_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What the last call of this thread that failed had to say, one line in English: what failed, on
 * which thing, what to do. Never null, "" if nothing has failed. It lies at one place for as long
 * as the thread lives; the next call of this thread that fails writes another text there. A call
 * has failed that returned a negative value, or a null pointer where its header says so, or, of
 * <kumiki/spawn.h>, a positive one.
 */
const char *kumiki_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* KUMIKI_ERROR_H */

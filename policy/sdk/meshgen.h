/* What a policy in C has to know: ABI 1 of docs/policy.md, and a few functions
 * over it that need no library. Build with
 *
 *   clang --target=wasm32 -Os -ffreestanding -fno-builtin -nostdlib \
 *         -Wl,--no-entry -o policy.wasm policy.c
 */
#ifndef MESHGEN_H
#define MESHGEN_H

enum decision { REFUSE, HOLD, ADOPT, FOLLOW, MIGRATE, TRANSFER, REMOVE, KEEP, RESTORE };

/* Stands before the one function that is asked: DECIDE { ... return REFUSE; } */
#define DECIDE __attribute__((export_name("decide"))) int decide(void)

/* The host's own two functions. fact returns the length of a fact, -1 where it is
 * not known, and writes nothing where cap is less than that. */
__attribute__((import_module("meshgen"), import_name("fact")))
int meshgen_fact(const char *key, int key_len, char *buf, int cap);
__attribute__((import_module("meshgen"), import_name("reason")))
void meshgen_reason(const char *text, int len);

#define FACT_MAX 1024

struct fact {
	int len; /* -1: not known; -2: known, and longer than FACT_MAX */
	char text[FACT_MAX];
};

static int length(const char *s)
{
	int n = 0;
	while (s[n])
		n++;
	return n;
}

/* because adds to the reason. */
static void because(const char *text)
{
	meshgen_reason(text, length(text));
}

/* ask fills f with a fact, and returns whether it is known. */
static int ask(const char *key, struct fact *f)
{
	f->len = meshgen_fact(key, length(key), f->text, FACT_MAX);
	if (f->len > FACT_MAX)
		f->len = -2;
	return f->len != -1;
}

/* is returns whether a fact that was asked for has this text. */
static int is(const struct fact *f, const char *text)
{
	int i;
	if (f->len != length(text))
		return 0;
	for (i = 0; i < f->len; i++)
		if (f->text[i] != text[i])
			return 0;
	return 1;
}

/* yes returns whether a fact is known and true. */
static int yes(const char *key)
{
	struct fact f;
	return ask(key, &f) && is(&f, "true");
}

#endif

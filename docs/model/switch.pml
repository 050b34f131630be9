/*
 * A switch of meshgen between two sets, killed, cut off and interfered with at
 * every moment. README.md beside this file says which Go function each step
 * stands for, what is left out, and what was found.
 *
 * Set 0 has the unit OLD, set 1 has NEW: one resource, renamed. BYS and a file of
 * its own are in set 0 alone. CHG is in both, with another definition in each,
 * and so is the config file that OLD and NEW read.
 *
 * A macro given by -D puts a fault in; model_test.go has the list. As it stands
 * the model has the order of the code.
 */

/* How often the world may do what. */
#ifndef CRASHES
#define CRASHES 2 /* the process is killed, or the power goes */
#endif
#ifndef RELOADS
#define RELOADS 1 /* somebody else's daemon-reload */
#endif
#ifndef HANDS
#define HANDS 1 /* somebody starts a unit that systemd knows */
#endif
#ifndef FAILS
#define FAILS 1 /* a unit does not come up, or a step of the switch fails */
#endif

#define OLD 0
#define NEW 1
#define BYS 2
#define NONE 3
#define IN(u, s) ((u == NEW) == (s == 1)) /* set s declares unit u */
#define UNIT(s) (s == 1 -> NEW : OLD)     /* the renamed resource's, in set s */
#define OTHER(u) (u == OLD -> NEW : OLD)

byte x;
#define EACH(act) x = 0; do :: x < 3 -> act; x++ :: else -> x = 0; break od
#define WHERE(cond, act) if :: cond -> act :: else fi

mtype = {
	invoke, prepare, stage, intend, link_pending, again,
	raise_first, raise_second, rescue_link, rescue_look, rescue_reload, stop,
	rename_conf, rename_file, flip, hand_over, see_old_down, sweep, reload,
	see_gone, lost_reload, lost_stop, restart, start, interrupted, confirm, carry,
	retire_look, retire_remove, close, clear_pending, leave, done,
	boot_load, boot_recover, boot_start
};

/* What outlives the power: two links, the files, the generations, the ledger. */
bit current, pending;
bit conf;                   /* whose content the config file has */
bit file = 1;               /* BYS's own is there */
bit fenced[2];              /* the set's generation names a predecessor */
bit live[3], due[3];
bit started[3];             /* a start is recorded since the name was emitted */
bit liveFile = 1;
bit dueChg, startedChg, emittedChg; /* the latter two say by which set */
bit begun, begunFrom, begunTo;      /* the unfinished switch */

/* What does not: systemd's view, the containers, /run. */
bit up[3];                  /* systemd has the unit as up */
bit runs[3];                /* its container runs, whatever systemd says */
bit loaded[3];              /* systemd has its definition */
bit fence;                  /* and that OLD and NEW conflict */
bit recorded[3];            /* the run is the one that the ledger has */
bit reads;                  /* the content that OLD or NEW read when it started */
bit upChg = 1, runsChg, loadedChg, recordedChg = 1;
bit bridge, bridgeNew;      /* the bridge, and the set that its new leads to */
bit linked[3], dropin;      /* in /run/systemd/system: units, the fence */

/* The process that switches. */
mtype step = invoke;
bit aim = 1, from, to, undoing, fragile, recovering, inForce;
bit failed, err, left;
bit pStop[3], pRescue[3], pStart[3], pRestart[3], pHand, pReread;
bit pStartChg, pRestartChg;
bit seenUp[3], seenGoing[3];

byte crashes = CRASHES, reloads = RELOADS, hands = HANDS, fails = FAILS;
byte bad = NONE;

/*
 * systemd.
 */
#define GIVEN(u) (linked[u] || bridge || IN(u, current)) /* a reload would load it */

inline daemonReload() {
	EACH(loaded[x] = GIVEN(x));
	fence = dropin || (bridge -> fenced[bridgeNew] : fenced[current]);
#ifdef NO_FENCE
	fence = 0;
#endif
	loadedChg = (bridge -> 1 - bridgeNew : current)
}

/* Without its definition a unit is given up as failed, and its container runs on. */
#define STOP(u) runs[u] = runs[u] && !loaded[u]; up[u] = 0

#define START(u) WHERE(u != BYS && fence && up[OTHER(u)], STOP(OTHER(u))); \
	WHERE(!up[u] && bad != u, up[u] = 1; runs[u] = 1; recorded[u] = 0; reads = (u == BYS -> reads : conf))

/*
 * The plan: one look at the machine, and what follows from it.
 */
#ifdef TRUST_FIRST_RUN
bit retired[3]; /* a generation before had the name */
#define THERUN(u) ((recorded[u] && started[u]) || !(started[u] || retired[u]))
#define RETIRED(u) retired[u] = 1
#else
#define THERUN(u) (recorded[u] && started[u])
#define RETIRED(u) skip
#endif
#define HANDED(u) (pHand && u != BYS)
#define ANY(p) (p[OLD] || p[NEW] || p[BYS])
#define TAKEN(u) (pStop[u] || (HANDED(u) && !IN(u, to)))
#define TOUCHED(u) (IN(u, to) && (pStart[u] || pRestart[u] || HANDED(u)))
#define EMITS (!live[UNIT(to)] || (to == 0 && !live[BYS]) || emittedChg != to)
#define RETIRES ((to == 0 && live[NEW]) || (to == 1 && (live[OLD] || live[BYS])))
#define EMPTY !(ANY(pStop) || ANY(pStart) || ANY(pRestart) || pHand || pStartChg || pRestartChg || \
	EMITS || RETIRES || conf != to || (to == 0 && !file) || liveFile == to)

inline plan() {
	EACH(
		seenUp[x] = IN(x, to) && up[x];
		if
		:: IN(x, to) && live[x] -> /* keptUnit */
			pStart[x] = !up[x] && due[x];
			pRestart[x] = up[x] && due[x] && !THERUN(x)
		:: IN(x, to) && !live[x] -> /* newUnit */
			pStart[x] = !up[x]
		:: !IN(x, to) && live[x] && up[x] && !loaded[x] -> /* oldUnit: stranded */
			pStop[x] = 1; pRescue[x] = 1
		:: !IN(x, to) && live[x] && up[x] && loaded[x] -> /* renamedUnit */
			pHand = pHand || (x != BYS && !up[UNIT(to)]);
			pStop[x] = x == BYS || up[UNIT(to)]
		:: else
		fi);
	pStart[UNIT(to)] = !pHand && (pStart[UNIT(to)] || (pStop[UNIT(1 - to)] && !up[UNIT(to)])); /* succeed, finish */
	pStartChg = !upChg && (dueChg || emittedChg != to);
	pRestartChg = upChg && !(startedChg == to && (!dueChg || recordedChg));
	pReread = recovering || EMITS || RETIRES
}

#define EMIT EACH(WHERE(IN(x, to) && !live[x], live[x] = 1; due[x] = 0; started[x] = 0)); \
	emittedChg = to; liveFile = liveFile || to == 0

inline emissions() {
#ifndef RECORD_AFTER_ACT
	EMIT;
#endif
#ifndef NO_DUE
	EACH(due[x] = due[x] || (live[x] && (pStop[x] || pRestart[x] || pStart[x] || HANDED(x))));
	dueChg = dueChg || pStartChg || pRestartChg;
#endif
	skip
}

inline forget() {
	EACH(pStop[x] = 0; pRescue[x] = 0; pStart[x] = 0; pRestart[x] = 0; seenUp[x] = 0; seenGoing[x] = 0);
	pHand = 0; pReread = 0; pStartChg = 0; pRestartChg = 0; recovering = 0;
	inForce = 0; failed = 0; err = 0; left = 0
}

/*
 * What the steps are made of, each in the order of the design or with a fault.
 */
#ifdef NO_BRIDGE
#define RAISE_BRIDGE skip
#else
#define RAISE_BRIDGE WHERE(pHand, bridge = 1; bridgeNew = to)
#endif
#ifdef NO_FENCE
#define RAISE_FENCE skip
#else
#define RAISE_FENCE dropin = 1; fence = 1
#endif
#define RAISE_LINKS WHERE(pHand, RAISE_FENCE; linked[UNIT(to)] = 1; loaded[UNIT(to)] = 1)
#ifdef BRIDGE_BEFORE_FENCE
#define RAISE_FIRST RAISE_BRIDGE
#define RAISE_SECOND RAISE_LINKS
#else
#define RAISE_FIRST RAISE_LINKS
#define RAISE_SECOND RAISE_BRIDGE
#endif

inline sweepBridge() { bridge = 0; bridgeNew = 0; dropin = 0; EACH(linked[x] = 0) }

#ifdef RESCUE_BY_PLAN
#define HOLD(u) linked[u] = linked[u] || pRescue[u]
#define LOSES(u) pRescue[u]
#else
#define HOLD(u) linked[u] = linked[u] || (TAKEN(u) && !IN(u, current))
#define LOSES(u) (TAKEN(u) && up[u] && !loaded[u])
#endif
#ifdef NO_RESCUE
#undef HOLD
#define HOLD(u) skip
#endif

/* A stop by meshgen: it is sure of the definition. */
#define HALT(u) WHERE(up[u], assert(loaded[u]); /* P3 */ STOP(u))

#ifdef RELOAD_BEFORE_STOP
#define HALT_EARLY skip
#define HALT_LATE EACH(WHERE(pStop[x], HALT(x)))
#else
#define HALT_EARLY EACH(WHERE(pStop[x], HALT(x)))
#define HALT_LATE skip
#endif

/* A job that brings u up: a start where it is down, a restart where something brought it up since it was looked at. */
#ifdef START_IS_ENOUGH
#define JOB(u) START(u); failed = failed || bad == u
#else
#define JOB(u) HALT(u); START(u); failed = failed || bad == u
#endif

#ifdef NO_LOOK_AFTER_RELOAD
#define LOST(u) 0
#else
#define LOST(u) (!IN(u, to) && live[u] && up[u])
#endif

#ifdef RECORD_UNSTARTED
#define GIVEN_UP confirm
#else
#define GIVEN_UP carry
#endif

/* P2: what is retired is gone, and nothing that is loaded brings it back. */
#define RETIRE EACH(WHERE(live[x] && !IN(x, to), WHERE(seenGoing[x], left = 1); WHERE(!seenGoing[x], \
		assert(!runs[x] && !up[x] && !loaded[x] && !GIVEN(x)); \
		live[x] = 0; due[x] = 0; started[x] = 0; RETIRED(x)))); \
	WHERE(to == 1, assert(!file); liveFile = 0)
#ifdef RETIRE_UNSEEN
#define RETIRE_EARLY RETIRE
#define RETIRE_LATE skip
#else
#define RETIRE_EARLY skip
#define RETIRE_LATE RETIRE
#endif

/* All is as set s wants it, and the ledger has no other name. */
#define WHOLE(s) EACH(assert(up[x] == IN(x, s) && runs[x] == IN(x, s) && live[x] == IN(x, s) && !(live[x] && due[x]))); \
	assert(current == s && conf == s && reads == s && file == (s == 0) && liveFile == (s == 0)); \
	assert(upChg && runsChg == s && !dueChg && !begun && !pending)

#define DO(s) d_step { step == s -> TELL(s);
#define TELL(s) printf("%e\n", s)
#define THEN(s) step = s }
/* A step that may fail, where cond holds, in what is called u. */
#define MAY(s, cond, u) atomic { step == s -> if :: true :: fails > 0 && (cond) -> fails--; bad = u fi; d_step { TELL(s); WHERE(bad != NONE, printf("FAILS\n"));
#define MAY_THEN bad = NONE } }

proctype meshgen() {
	do
	:: DO(invoke)
		forget();
		if
		:: begun -> undoing = current != begunTo; to = current; from = (undoing -> begunTo : begunFrom); step = again
		:: !begun -> sweepBridge(); pending = 0; step = prepare
		fi }
	:: atomic { step == prepare ->
		if :: fragile = 1 :: fragile = 0 fi; /* --rollback=auto, never */
		d_step { TELL(prepare);
		from = current; to = aim; undoing = 0;
		plan();
		fragile = fragile && from != to;
		if :: EMPTY -> WHOLE(aim); step = leave :: else -> step = stage fi } }
	:: DO(stage)
		WHERE(from != to, fenced[to] = live[UNIT(from)]);
		THEN(intend)
	:: DO(intend)
		begun = 1; begunFrom = from; begunTo = to;
		emissions();
		THEN(link_pending)
	:: DO(link_pending) pending = 1; THEN(raise_first)

	:: atomic { step == again ->
		if :: fragile = 1 :: fragile = 0 fi;
		d_step { TELL(again);
		forget();
		fragile = fragile && from != to && !undoing; recovering = 1;
		plan();
		emissions();
		step = raise_first } }

	:: DO(raise_first) RAISE_FIRST; THEN(raise_second)
	:: DO(raise_second) RAISE_SECOND; THEN(rescue_link)
	:: DO(rescue_link) EACH(HOLD(x)); THEN(rescue_look)
	:: DO(rescue_look)
		EACH(pRescue[x] = LOSES(x));
		step = (ANY(pRescue) -> rescue_reload : stop) }
	:: DO(rescue_reload) daemonReload(); THEN(stop)
	:: MAY(stop, true, OLD)
		if :: bad == NONE -> HALT_EARLY; step = rename_conf :: else -> err = 1; step = carry fi;
		MAY_THEN
	:: MAY(rename_conf, true, OLD)
		if :: bad == NONE -> conf = to; step = rename_file :: else -> err = 1; step = carry fi;
		MAY_THEN
	:: DO(rename_file) file = file || to == 0; THEN(flip)
	:: DO(flip) current = to; inForce = 1; THEN(hand_over)
	:: MAY(hand_over, pHand, UNIT(to))
		WHERE(pHand, JOB(UNIT(to)));
		step = see_old_down; MAY_THEN
	:: MAY(see_old_down, pHand && up[UNIT(1 - to)], OLD)
		if
		:: bad == NONE -> WHERE(pHand, HALT(UNIT(1 - to))); step = sweep
		:: else -> err = 1; step = carry
		fi;
		MAY_THEN
	:: DO(sweep)
		sweepBridge();
		step = (pReread || pHand || ANY(pRescue) -> reload : restart) }
	:: MAY(reload, true, OLD)
		if :: bad == NONE -> daemonReload(); HALT_LATE; step = see_gone :: else -> err = 1; step = carry fi;
		MAY_THEN
	:: DO(see_gone)
		EACH(pRescue[x] = LOST(x); linked[x] = LOST(x));
		step = (ANY(pRescue) -> lost_reload : restart) }
	:: DO(lost_reload) daemonReload(); THEN(lost_stop)
	:: DO(lost_stop) EACH(WHERE(pRescue[x], HALT(x))); THEN(sweep)
	:: MAY(restart, (pStartChg || pRestartChg) && !(failed && fragile), OLD)
		if
		:: failed && fragile -> step = GIVEN_UP
		:: else ->
			WHERE(pStartChg || pRestartChg, upChg = bad == NONE; runsChg = loadedChg; recordedChg = 0);
			failed = failed || bad != NONE;
			step = start
		fi;
		MAY_THEN
	:: MAY(start, pStart[UNIT(to)] || pRestart[UNIT(to)], UNIT(to))
		EACH(WHERE(pStart[x] || pRestart[x], JOB(x)));
		step = interrupted; MAY_THEN
	:: DO(interrupted)
		EACH(WHERE(seenUp[x] && !up[x] && !TOUCHED(x), JOB(x)));
		THEN(confirm)
	:: DO(confirm)
#ifdef RECORD_AFTER_ACT
		EMIT;
#endif
		EACH(
			failed = failed || (TOUCHED(x) && !(up[x] && loaded[x]));
			WHERE(IN(x, to) && up[x] && loaded[x] && (TOUCHED(x) || due[x] || !started[x]),
				started[x] = 1; due[x] = 0; recorded[x] = 1));
		failed = failed || ((pStartChg || pRestartChg) && !upChg);
		WHERE(upChg && (pStartChg || pRestartChg || dueChg), startedChg = to; dueChg = 0; recordedChg = 1);
		THEN(carry)

	:: DO(carry)
		if
		:: undoing -> step = (err -> leave : retire_look)
		:: !undoing && err && !inForce && from == to -> begun = 0; step = clear_pending
		:: !undoing && from != to && ((err && !inForce) || ((err || failed) && fragile)) ->
			undoing = 1; to = from; from = 1 - to; step = again
#ifndef RETIRE_AFTER_ERROR
		:: !undoing && err && inForce && !fragile -> begun = 0; step = clear_pending
#endif
		:: else -> step = retire_look
		fi }

	:: DO(retire_look)
		RETIRE_EARLY;
		EACH(seenGoing[x] = live[x] && !IN(x, to) && up[x]);
		file = file && to == 0;
		THEN(retire_remove)
	:: DO(retire_remove)
		EACH(WHERE(live[x] && !IN(x, to) && runs[x], runs[x] = 0; up[x] = 0));
		THEN(close)
	:: DO(close) RETIRE_LATE; begun = 0; THEN(clear_pending)
	:: DO(clear_pending)
		pending = 0;
		WHERE(!(failed || err || left), WHOLE(to));
		step = leave }
	:: atomic { step == leave -> /* done, or switched again, perhaps to another set */
		if
		:: !begun && !failed && !err && !left && to == aim && current == aim && !pending -> step = done
		:: else -> if :: aim = 0 :: aim = 1 fi; step = invoke
		fi;
		d_step { forget(); from = 0; to = 0; undoing = 0; fragile = 0 } }

	/* The generator, meshgen-recover.service, then all that is enabled. */
	:: DO(boot_load)
		daemonReload();
		step = (pending -> boot_recover : boot_start) }
	:: DO(boot_recover)
#ifdef BOOT_TRUSTS_FLIP
		WHERE(current != begunTo, conf = current; file = file || current == 0);
#else
#ifndef NO_BOOT_RECOVERY
		conf = current; file = file || current == 0;
#endif
#endif
		THEN(boot_start)
	:: DO(boot_start)
		EACH(WHERE(IN(x, current), START(x)));
		upChg = 1; runsChg = loadedChg; recordedChg = 0;
		EACH(assert(runs[x] == IN(x, current)));                                               /* P6 */
		assert(runsChg == current && reads == current && conf == current && (file || current == 1)); /* P6 */
		left = 1; /* not settled: somebody switches again */
		THEN(leave)

	:: step == done && crashes == 0 -> break
	od
}

#define BOOTING (step == boot_load || step == boot_recover || step == boot_start)

#define HAND(u) d_step { hands > 0 && step != boot_load && step != boot_recover && loaded[u] && !up[u] -> hands--; printf("START %d\n", u); START(u) }

proctype world() {
end:	do
	:: d_step { reloads > 0 && step != boot_load -> reloads--; printf("RELOAD\n"); daemonReload() }
	:: HAND(OLD)
	:: HAND(NEW)
	:: HAND(BYS)
	:: d_step { crashes > 0 && !BOOTING && step != done -> crashes--; printf("KILL\n"); forget(); left = 1; step = leave }
	:: d_step { crashes > 0 -> crashes--; printf("POWER\n");
		forget(); from = 0; to = 0; undoing = 0; fragile = 0;
		EACH(up[x] = 0; runs[x] = 0; loaded[x] = 0; recorded[x] = 0);
		fence = 0; reads = 0; upChg = 0; runsChg = 0; loadedChg = 0; recordedChg = 0;
		sweepBridge();
		step = boot_load }
	od
}

/* Whatever happens. */
#define NAMED(u) (!runs[u] || live[u])
proctype promises() {
end:	if
	:: atomic { !(NAMED(OLD) && NAMED(NEW) && NAMED(BYS)) -> assert(NAMED(OLD) && NAMED(NEW) && NAMED(BYS)) } /* P1 */
	:: atomic { file && !liveFile -> assert(!file || liveFile) }                                           /* P1 */
	:: atomic { runs[OLD] && runs[NEW] -> assert(!(runs[OLD] && runs[NEW])) }                              /* P3 */
	fi
}

init {
	atomic {
		if
		:: d_step { true -> EACH(up[x] = IN(x, 0); runs[x] = up[x]; loaded[x] = up[x]; live[x] = up[x]; started[x] = up[x];
			recorded[x] = up[x]) }
		:: d_step { true -> /* Set 1 is in force, and OLD is still up, its definition lost. A start by hand would have both. */
			current = 1; conf = 1; reads = 0; file = 0; liveFile = 0; startedChg = 1; emittedChg = 1; runsChg = 1; loadedChg = 1;
			live[OLD] = 1; up[OLD] = 1; runs[OLD] = 1; started[OLD] = 1; recorded[OLD] = 1;
			live[NEW] = 1; loaded[NEW] = 1; started[NEW] = 1; hands = 0 }
		fi;
		run meshgen(); run world(); run promises()
	}
}

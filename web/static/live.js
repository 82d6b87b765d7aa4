// New things wait behind a button, so that nothing moves under the reader's eyes.
import { all, find, isolated, kept } from "./page.js";

const [bar, fresh, state, pause] = all(".live, .fresh, .state, .pause");
const { stream, key, text, mime, change, kinds } = bar.dataset;
let cursor = bar.dataset.cursor; // of the last event seen
let source, timer, hidden, wait = 1000, count = 0;
let paused = kept("paused", undefined, "sessionStorage") === "true";

function offer(said) {
	fresh.textContent = `${said} · show`;
	fresh.hidden = false;
}

function happened({ type, lastEventId, data }) {
	if (lastEventId.localeCompare(cursor, "en", { numeric: true }) <= 0) return; // Cursors are pairs of numbers.
	cursor = lastEventId;
	const e = JSON.parse(data);
	if (e.key && (key ? e.key !== key : !e.key.toLowerCase().includes(text))) return;
	if (e.content_type?.toLowerCase().startsWith(mime) === false) return;
	// It may be on the page already.
	if (key && e.manifest_digest && find(`[data-version="${e.token}.${e.revision}"]`)) return;
	count++;
	const by = isolated(e.by || "somebody");
	const said = type === "published" ? `${e.token}.${e.revision} was published by ${by} just now`
		: type === "rejected" ? `A stale ${e.operation} of ${by} was refused just now`
		: `${type.replace("-", " ")} by ${by}`;
	offer(change || (!key || !e.key ? `${count} new` : count > 1 ? `${said}, ${count} new` : said));
}

function show(said, is = "") {
	state.textContent = said;
	bar.dataset.is = is;
}

function close(said) {
	clearTimeout(timer);
	source?.close();
	source = null;
	show(said);
}

function open() {
	close("Connecting");
	const address = `${stream}&after=${cursor}`;
	source = new EventSource(address);
	source.onopen = () => {
		wait = 1000;
		show("Live", "on");
	};
	source.onerror = () => {
		show("Connection lost, trying again", "lost");
		if (source.readyState !== EventSource.CLOSED) return; // The browser goes on by itself.
		source = null;
		timer = setTimeout(async () => {
			// 410: the cursor is too old to go on from. 401: the session is over. A stream doesn't tell.
			const answer = await fetch(address).catch(() => null);
			if (answer?.status === 410) offer("More is new");
			else if (answer?.status === 401) offer("You are signed out");
			else if (!paused && !document.hidden) open();
		}, wait);
		wait = Math.min(wait * 2, 15000);
	};
	for (const kind of kinds.split(" ")) source.addEventListener(kind, happened);
}

function run() {
	pause.textContent = paused ? "Resume" : "Pause";
	if (paused) close("Paused");
	else if (!source && !document.hidden) open();
}

pause.onclick = () => {
	paused = !paused;
	kept("paused", paused, "sessionStorage");
	run();
};
// A browser has few connections: hidden tabs and pages that were left hold none.
document.onvisibilitychange = () => {
	clearTimeout(hidden);
	if (document.hidden) hidden = setTimeout(close, 10000, "");
	else run();
};
onpagehide = () => close("");
onpageshow = run;

// The browser keeps where the page was scrolled to, not its focus.
fresh.onmousedown = (event) => event.preventDefault();
fresh.onclick = () => {
	const href = document.activeElement.closest("main a")?.getAttribute("href");
	history.replaceState(href ? `main a[href="${CSS.escape(href)}"]` : "main", "");
	location.reload();
};
if (history.state) find(history.state)?.focus({ preventScroll: true });
history.replaceState(null, "");
pause.hidden = false;
run();

// Run by tests/server/test_typescript.py beside a real server and worker.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { generateText, jsonSchema, stepCountIs, tool } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { Turnmill, TurnmillError, prepareStep } from "../dist/index.js";

const url = process.env.TURNMILL_URL;
const key = process.env.TURNMILL_KEY;
const turnmill = new Turnmill({ url, key });
const said = (content) => ({ messages: [{ role: "user", content }] });

test("a session is opened, stepped, read, forked and forgotten", async () => {
  const session = turnmill.session("team/ada#1");
  await session.open({ system_prompt: "Be kind.", policy: { max_tokens: 9000 } });
  const first = await session.step(said("Hello."));
  await session.push(said("Again."));
  const read = await session.read("anthropic");
  const recalled = await session.recall({ turn: 2 });
  const fork = await session.fork("team/ada#2", 1);

  assert.equal(first.request.messages.at(-1).content, "Hello.");
  assert.equal(read.request.system, "Be kind.");
  assert.match(recalled, /- \(turn 2, user\) Again\./);
  assert.equal((await session.info()).policy.max_tokens, 9000);
  assert.equal((await fork.info()).last_seq, 1);
  assert.equal((await session.forget()).existed, true);
});

test("an error has turnmill's own name", async () => {
  await assert.rejects(turnmill.session("never").read(), (error) => {
    assert.ok(error instanceof TurnmillError);
    assert.deepEqual([error.status, error.error, error.transient], [404, "UnknownSession", false]);
    return true;
  });
  await assert.rejects(new Turnmill({ url, key: "tm_wrong" }).call("sessions", {}), { error: "Unauthorized" });
});

test("a turn whose answer was lost is tried again and stored once", async () => {
  let lost = 0;
  const flaky = async (...given) => {
    const answer = await fetch(...given);
    if (lost++ === 0) throw new TypeError("the answer was lost");
    return answer;
  };
  const again = new Turnmill({ url, key, fetch: flaky }).session("flaky");
  const pushed = await again.push(said("Once."));

  assert.deepEqual([pushed.seq, pushed.duplicate, lost], [1, true, 2]);
});

const answering = async (t, answer) => {
  const asked = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    asked.push(body && JSON.parse(body));
    answer(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.closeAllConnections() ?? server.close());
  return [`http://127.0.0.1:${server.address().port}`, asked];
};

test("a turn whose id is undefined or null is tried again under one id", async (t) => {
  const [url, asked] = await answering(t, (response) => response.writeHead(502).end('{"message":"a proxy\'s"}'));
  for (const turn_id of [undefined, null]) {
    const pushed = new Turnmill({ url, retries: 1 }).session("s").push({ ...said("Once."), turn_id });
    await assert.rejects(pushed, { error: "HTTP", status: 502, transient: true });
  }

  assert.equal(asked.length, 4);
  assert.ok(asked.every((turn) => turn.turn_id));
  assert.equal(new Set(asked.map((turn) => turn.turn_id)).size, 2);
});

test("a wait longer than any call is not waited for", async (t) => {
  const problem = { status: 429, error: "QuotaExceeded", detail: "full", transient: true, retry_after_s: 1e9 };
  const [url, asked] = await answering(t, (response) => response.writeHead(429).end(JSON.stringify(problem)));

  await assert.rejects(new Turnmill({ url }).session("s").push(said("Once.")), { retryAfterS: 1e9 });
  assert.equal(asked.length, 1);
});

test("a conversation is not sent on to another server", async (t) => {
  const [elsewhere, asked] = await answering(t, (response) => response.end("{}"));
  const [url] = await answering(t, (response) => response.writeHead(307, { location: elsewhere }).end());

  await assert.rejects(new Turnmill({ url }).session("s").push(said("Mine.")), { status: 307, transient: false });
  assert.deepEqual(asked, []);
});

test("a fetch is called as browsers want it", async () => {
  const browsers = async function () {
    if (this !== undefined) throw new TypeError("Illegal invocation");
    return Response.json({ last_seq: 1 });
  };

  assert.equal((await new Turnmill({ fetch: browsers }).session("s").info()).last_seq, 1);
});

test("events that do not begin are not awaited", async (t) => {
  const [url] = await answering(t, () => {});

  await assert.rejects(new Turnmill({ url, timeoutMs: 50 }).events().next(), { name: "TimeoutError" });
});

test("commits are heard", async () => {
  const session = turnmill.session("heard");
  const ear = new AbortController();
  const heard = session.events(ear.signal).next();
  for (let at = 0; at < 8; at++) await session.push(said(`Turn ${at}: ${"so it is ".repeat(80)}`));
  const done = await turnmill.call("summarize", { session: "heard" }, {});

  assert.equal((await heard).value.session, "heard");
  ear.abort();
  assert.equal(done.version, 1);
  const bill = (await turnmill.usage("session")).find((each) => each.session === "heard");
  assert.deepEqual([bill.compactions, bill.day], [1, null]);
});

test("prepareStep gives a model of the AI SDK a context that fits, in its own objects", async () => {
  const session = turnmill.session("sdk");
  await session.open({ system_prompt: "Look it up.", policy: { max_tokens: 3000 } });
  const prompts = [];
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
  const model = new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => {
      prompts.push(prompt);
      const at = prompts.length;
      const call = { type: "tool-call", toolCallId: `c${at}`, toolName: "look", input: `{"at":${at}}` };
      return at < 12
        ? { content: [call], finishReason: { unified: "tool-calls" }, usage, warnings: [] }
        : { content: [{ type: "text", text: "Done." }], finishReason: { unified: "stop" }, usage, warnings: [] };
    },
  });
  const look = tool({
    inputSchema: jsonSchema({ type: "object", properties: { at: { type: "number" } } }),
    execute: async ({ at }) => ({ found: `page ${at}: ${"something long to read ".repeat(100)}` }),
  });
  const failures = [];
  const prepared = prepareStep(session, { onFailure: (error) => failures.push(error) });
  const done = await generateText({ model, tools: { look }, prompt: "Find it.", stopWhen: stepCountIs(20), prepareStep: prepared });

  assert.deepEqual(failures, []);
  assert.equal(done.text, "Done.");
  assert.equal(prompts.length, 12);
  assert.deepEqual(prompts[0].map((message) => message.role), ["system", "user"]);
  assert.deepEqual(prompts[2].at(-1).content[0].output.type, "json"); // as the SDK has it, not as text
  assert.equal((await session.info()).last_seq, 12);
  const sizes = prompts.map((prompt) => JSON.stringify(prompt).length);
  assert.ok(Math.max(...sizes) < 6 * 3000, `${sizes}`); // of 30,000 characters
  for (const prompt of prompts) {
    const calls = prompt.flatMap((m) => (m.role === "assistant" ? m.content.map((part) => part.toolCallId) : []));
    const results = prompt.flatMap((m) => (m.role === "tool" ? m.content.map((part) => part.toolCallId) : []));
    assert.deepEqual(calls.filter(Boolean), results);
  }
});

test("prepareStep leaves the SDK its own messages while turnmill cannot be asked", async () => {
  const failures = [];
  const nowhere = new Turnmill({ url: "http://127.0.0.1:1", retries: 0 }).session("s");
  const prepared = prepareStep(nowhere, { onFailure: (error) => failures.push(error) });

  assert.deepEqual(await prepared({ messages: [{ role: "user", content: "Hi." }] }), {});
  assert.equal(failures.length, 1);
  assert.match(failures[0].message, /^http:\/\/127\.0\.0\.1:1 cannot be reached: /);
});

test("prepareStep takes the same words twice where only what is new is given, and once of all", async () => {
  const yes = { role: "user", content: "Yes." };
  const [fresh, whole] = [turnmill.session("sdk-new"), turnmill.session("sdk-all")];
  for (const _ of [1, 2]) {
    await prepareStep(fresh, { given: "new" })({ messages: [yes] });
    await prepareStep(whole)({ messages: [yes, { role: "assistant", content: "Sure?" }, yes] });
  }

  assert.equal((await fresh.info()).last_seq, 2);
  assert.equal((await whole.info()).last_seq, 3);
});

test("prepareStep pushes what the AI SDK may be given, and gives it back as it was", async () => {
  const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const file = (data, mediaType = "image/png") => ({ role: "user", content: [{ type: "file", mediaType, data }] });
  const ran = { toolCallId: "w1", toolName: "web" };
  const output = { type: "json", value: undefined };
  const messages = [
    file({ type: "data", data: pixel }),
    file({ type: "url", url: new URL("https://example.com/a.png") }),
    file({ type: "reference", reference: { openai: "f1" } }),
    file({ type: "text", text: "Read me." }, "text/plain"),
    file("iVBORw0KGgo=", "image"),
    {
      role: "assistant",
      content: [
        { type: "tool-call", ...ran, input: {}, providerExecuted: true },
        { type: "tool-result", ...ran, output },
        { type: "text", text: "Found." },
      ],
    },
    { role: "user", content: "Half a pair: \ud83d" },
  ];
  const failures = [];
  const session = turnmill.session("sdk-shapes");
  const prepared = await prepareStep(session, { onFailure: (error) => failures.push(error) })({ messages });

  assert.deepEqual(failures, []);
  assert.deepEqual(prepared.messages.slice(0, 6), messages.slice(0, 6));
  assert.equal(prepared.messages.length, 7);
  const { request } = await session.read("chat");
  assert.deepEqual(request.messages.slice(0, 5).map(({ content }) => content[0].type ?? content), ["image_url", "image_url", "[a file, image/png]", "Read me.", "image_url"]);
});

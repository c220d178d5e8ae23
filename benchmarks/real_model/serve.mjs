// A small OpenAI-compatible endpoint around node-llama-cpp: loopback only, one request at a time, no key.
// node serve.mjs MODEL.gguf PORT [CONTEXT=16384] [THREADS=1]
import http from "node:http";
import {getLlama, LlamaChatSession} from "node-llama-cpp";
import {getGbnfGrammarForGbnfJsonSchema as gbnf} from "./node_modules/node-llama-cpp/dist/utils/gbnfJson/getGbnfGrammarForGbnfJsonSchema.js";

const [, , path, port, ctx = "16384", threads = "1"] = process.argv;
const llama = await getLlama({gpu: false, build: "never", progressLogs: false, maxThreads: +threads});
const model = await llama.loadModel({modelPath: path});
const window = Math.min(+ctx, model.trainContextSize);
const context = await model.createContext({contextSize: window, threads: +threads, batchSize: 512});
const sequence = context.getSequence(); // kept: equal beginnings of prompts are not read again
const name = path.split("/").pop().replace(/\.gguf$/, "");
let busy = Promise.resolve(), serial = 0;

const called = m => (m.tool_calls ?? []).map(c => `${c.function.name}(${c.function.arguments})`);
const content = m => typeof m.content === "string" ? m.content : (m.content ?? []).map(p => p.text ?? "").join("");
const text = m => [content(m), ...called(m)].filter(Boolean).join("\n");
const isSystem = m => m.role === "system" || m.role === "developer";

async function grammarOf(format) {
  if (format?.type === "json_schema") // on one line, as large providers write it: the package's own takes a third more tokens
    return llama.createGrammar({grammar: gbnf(format.json_schema.schema, {allowNewLines: false}), stopGenerationTriggers: ["\n"]});
  return format?.type === "json_object" ? llama.getGrammarFor("json") : undefined;
}

async function answer(q, signal, onTextChunk) {
  const system = q.messages.filter(isSystem).map(text).join("\n\n");
  const rest = q.messages.filter(m => !isSystem(m)), last = rest.pop();
  const tokens = [system, ...rest.map(text), text(last)].reduce((n, t) => n + model.tokenize(t).length + 8, 0);
  if (tokens + 64 > window) throw Object.assign(
    new Error(`This model's maximum context length is ${window} tokens; the messages have ${tokens}.`), {code: "context_length_exceeded"});
  const grammar = await grammarOf(q.response_format);
  const session = new LlamaChatSession({contextSequence: sequence, systemPrompt: system || undefined});
  session.setChatHistory([...session.getChatHistory(), ...rest.map(m =>
    m.role === "assistant" ? {type: "model", response: [text(m)]} : {type: "user", text: text(m)})]);
  const before = sequence.tokenMeter.getState(), began = Date.now();
  const r = await session.promptWithMeta(text(last), {
    maxTokens: Math.min(q.max_completion_tokens ?? q.max_tokens ?? 4096, window - tokens - 16),
    temperature: q.temperature ?? 0.7, topP: q.top_p ?? 0.8, topK: 20, seed: q.seed ?? 1, grammar, signal, stopOnAbortSignal: true,
    repeatPenalty: {penalty: 1.1, lastTokens: 64, penalizeNewLine: false}, // as in Qwen2.5's own configuration
    trimWhitespaceSuffix: false, onTextChunk});
  const used = sequence.tokenMeter.diff(before), whole = Math.max(tokens, used.usedInputTokens);
  session.dispose({disposeSequence: false});
  console.log(used.usedInputTokens, "read,", used.usedOutputTokens, "written,", (Date.now() - began) / 1e3, "s,", r.stopReason);
  return {content: r.responseText, finish: ["maxTokens", "abort"].includes(r.stopReason) ? "length" : "stop",
    usage: {prompt_tokens: whole, completion_tokens: used.usedOutputTokens, total_tokens: whole + used.usedOutputTokens,
      prompt_tokens_details: {cached_tokens: whole - used.usedInputTokens}}};
}

async function served(req, res, body) {
  const send = (code, o) => { res.writeHead(code, {"content-type": "application/json"}); res.end(JSON.stringify(o)); };
  const gone = new AbortController();
  res.on("close", () => gone.abort());
  if (req.method === "GET") return send(200, {object: "list", data: [{id: name, object: "model", max_model_len: window}]});
  const q = JSON.parse(body), head = {id: `chatcmpl-${++serial}`, created: Math.floor(Date.now() / 1000), model: q.model ?? name};
  const piece = (choices, usage) => {
    if (!res.headersSent) res.writeHead(200, {"content-type": "text/event-stream"});
    res.write(`data: ${JSON.stringify({...head, object: "chat.completion.chunk", choices, usage})}\n\n`);
  };
  const delta = (content, finish = null) => piece([{index: 0, delta: {role: "assistant", content}, finish_reason: finish}]);
  try {
    const a = await answer(q, gone.signal, q.stream ? delta : undefined);
    if (!q.stream) return send(200, {...head, object: "chat.completion", usage: a.usage, choices: [
      {index: 0, message: {role: "assistant", content: a.content, refusal: null}, finish_reason: a.finish}]});
    delta("", a.finish);
    if (q.stream_options?.include_usage) piece([], a.usage);
    res.end("data: [DONE]\n\n");
  } catch (e) {
    if (res.headersSent) return res.destroy();
    send(e.code ? 400 : 500, {error: {message: String(e.message ?? e), type: "invalid_request_error", code: e.code ?? null}});
  }
}

http.createServer((req, res) => {
  const parts = [];
  req.on("data", part => parts.push(part));
  req.on("end", () => { busy = busy.then(() => res.destroyed ? undefined : served(req, res, Buffer.concat(parts))).catch(() => res.destroy()); });
}).listen(+port, "127.0.0.1", () => console.log("ready", name, window));

// A client that knows nothing of executor but its proto file. Prints one JSON object: what each call answered.
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [address, proto, healthProto] = process.argv.slice(2);
const options = { keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true };
const load = (file) => grpc.loadPackageDefinition(loader.loadSync(file, options));
const credentials = grpc.credentials.createInsecure();
const service = new (load(proto).executor.v1.ExecutorService)(address, credentials);
const health = new (load(healthProto).grpc.health.v1.Health)(address, credentials);

const ask = (client, method, request) =>
  new Promise((resolve, reject) => {
    client[method](request, { deadline: Date.now() + 30_000 }, (error, answer) =>
      error ? reject(error) : resolve(answer),
    );
  });

const invocation = (tool, args) => ({
  invocation: { tool, arguments_json: JSON.stringify(args), call_id: "from-node" },
});

async function stream(request, onEvent = () => {}) {
  const kinds = [];
  let last;
  for await (const event of service.ExecuteStream(request, { deadline: Date.now() + 30_000 })) {
    last = event;
    if (kinds.at(-1) !== event.event) kinds.push(event.event);
    await onEvent(event);
  }
  return { kinds, outcome: last.outcome };
}

async function refusal(request) {
  try {
    await ask(service, "Execute", request);
  } catch (error) {
    return { code: grpc.status[error.code], details: error.details };
  }
  throw new Error("the malformed call was taken");
}

const results = {
  health: await ask(health, "Check", { service: "executor.v1.ExecutorService" }),
  tools: (await ask(service, "ListTools", {})).tools.map((tool) => tool.name),
  execute: (await ask(service, "Execute", invocation("echo", { text: "grüße" }))).outcome,
  failed: (await ask(service, "Execute", invocation("exho", {}))).outcome,
  stream: await stream(invocation("echo", { text: "streamed" })),
  refused: await refusal({}),
  cancelled: await stream(invocation("sleep", { seconds: 15 }), async (event) => {
    if (event.event === "started") await ask(service, "CancelInvocation", { call_id: "from-node" });
  }),
};
service.close();
health.close();
console.log(JSON.stringify(results));

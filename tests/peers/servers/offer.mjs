// What both test servers offer, so that one script fits either. Each SDK has its own way to ask the client.

export const NOTE = "note://first";

export const QUESTIONS = {
  confirm: { message: "Shall it be done?", field: "sure" },
  think: { prompt: "What comes after one?" },
};

// What a tool that asked says, by what came back.
export const says = {
  confirm: (answer) => `confirmed: ${answer?.content?.sure ?? answer?.action}`,
  think: (answer) => `thought: ${answer?.content?.text}`,
  where: (answer) => `roots: ${answer?.roots?.map(({ uri }) => uri).join(" ")}`,
};

export const text = (words) => ({ content: [{ type: "text", text: words }] });

export const form = {
  type: "object",
  properties: { [QUESTIONS.confirm.field]: { type: "boolean", title: "Sure?" } },
  required: [QUESTIONS.confirm.field],
};

export const sampling = {
  messages: [{ role: "user", content: { type: "text", text: QUESTIONS.think.prompt } }],
  maxTokens: 10,
};

// Three steps of progress for who wants them, and a line of the log each.
export async function work(token, notify, log) {
  for (let step = 1; step <= 3; step++) {
    await log({ level: "info", logger: "work", data: `step ${step}` });
    if (token !== undefined) {
      await notify({ method: "notifications/progress", params: { progressToken: token, progress: step, total: 3 } });
    }
  }
  return text("worked");
}
